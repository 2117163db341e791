"""The benchmark's sentences and their true counts."""

from collections import Counter

from tests.bench.corpus import WORDS_PER_SENTENCE, texts, true_counts, vocabulary


def test_sentences_are_deterministic() -> None:
    """A longer corpus starts with the shorter one, on every machine."""
    assert texts(50) == texts(200)[:50]
    assert texts(1)[0].split()[0] in vocabulary()


def test_sentence_has_8_to_12_words() -> None:
    """All lengths occur. The average is ten, on which the results rely."""
    lengths = Counter(len(text.split()) for text in texts(2000))
    assert sorted(lengths) == [8, 9, 10, 11, 12]
    assert (
        abs(sum(length * count for length, count in lengths.items()) / 2000 - WORDS_PER_SENTENCE)
        < 0.1
    )


def test_vocabulary_has_5000_words_without_digits() -> None:
    """So an id is never mistaken for a word."""
    assert len(set(vocabulary())) == 5000
    assert all(word.isalpha() for word in vocabulary())


def test_word_frequencies_follow_zipf() -> None:
    """The first word occurs about twice as often as the second, and ten times as often as the
    tenth.
    """
    counts = true_counts(texts(5000))
    first, second, tenth = (counts[vocabulary()[rank]] for rank in (0, 1, 9))
    assert 1.8 < first / second < 2.2
    assert 8 < first / tenth < 12


def test_skewed_corpus_has_one_word_for_half_of_the_text() -> None:
    """The other words keep their proportions."""
    counts = true_counts(texts(5000, 0.5))
    first, second, tenth = (counts[vocabulary()[rank]] for rank in (0, 1, 9))
    assert 0.49 < first / counts.total() < 0.51
    assert 4 < second / tenth < 6


def test_true_counts_include_every_word() -> None:
    """A word that occurs twice in a sentence counts twice."""
    assert true_counts(["to be or not to be", "be quick"]) == {
        "to": 2,
        "be": 3,
        "or": 1,
        "not": 1,
        "quick": 1,
    }
    assert true_counts(texts(100)).total() == sum(len(text.split()) for text in texts(100))
