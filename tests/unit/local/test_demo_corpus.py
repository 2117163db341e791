"""The demo's text is the same on every machine."""

from kstorm.local.demo import corpus


def test_there_is_plenty_of_plain_english() -> None:
    """The text is thousands of sentences, among whose words are the ones that English uses most."""
    found = corpus.sentences()
    words = [word for sentence in found for word in sentence.split()]
    assert len(found) > 1500
    assert {"the", "of", "a", "is"} <= set(words)
    assert words.count("the") > 1000


def test_every_sentence_has_words_and_an_end() -> None:
    """No sentence is empty or a piece of code."""
    for sentence in corpus.sentences():
        assert len(sentence.split()) >= 3
        assert sentence[-1] in ".!?"
        assert "::=" not in sentence


def test_messages_begin_again_when_the_text_is_used_up() -> None:
    """Any number of messages can be had; the text repeats itself."""
    text = corpus.sentences()
    assert corpus.messages(2) == list(text[:2])
    assert corpus.messages(len(text) + 3)[-3:] == list(text[:3])
