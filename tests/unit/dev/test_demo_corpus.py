"""The demo's text is the same on every machine."""

from kstorm.dev.demo import corpus


def test_corpus_has_thousands_of_english_sentences() -> None:
    """It has the most frequent English words."""
    found = corpus.sentences()
    words = [word for sentence in found for word in sentence.split()]
    assert len(found) > 1500
    assert {"the", "of", "a", "is"} <= set(words)
    assert words.count("the") > 1000


def test_every_sentence_has_words_and_an_end() -> None:
    """No sentence is empty or code."""
    for sentence in corpus.sentences():
        assert len(sentence.split()) >= 3
        assert sentence[-1] in ".!?"
        assert "::=" not in sentence


def test_messages_repeat_the_text_at_its_end() -> None:
    """So any number of messages is available."""
    text = corpus.sentences()
    assert corpus.messages(2) == list(text[:2])
    assert corpus.messages(len(text) + 3)[-3:] == list(text[:3])
