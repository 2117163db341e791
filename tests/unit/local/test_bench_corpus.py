"""The benchmark's sentences, and what their counts ought to be."""

from collections import Counter

from tests.bench.corpus import WORDS_PER_SENTENCE, texts, true_counts, vocabulary


def test_the_sentences_are_always_the_same() -> None:
    """A longer corpus begins with the shorter one, on every machine."""
    assert texts(50) == texts(200)[:50]
    assert texts(1)[0].split()[0] in vocabulary()


def test_a_sentence_has_8_to_12_words_and_all_lengths_occur() -> None:
    """Ten on average, which figures rely on."""
    lengths = Counter(len(text.split()) for text in texts(2000))
    assert sorted(lengths) == [8, 9, 10, 11, 12]
    assert (
        abs(sum(length * count for length, count in lengths.items()) / 2000 - WORDS_PER_SENTENCE)
        < 0.1
    )


def test_there_are_5000_different_words_and_none_is_a_number() -> None:
    """An id is never taken for a word."""
    assert len(set(vocabulary())) == 5000
    assert all(word.isalpha() for word in vocabulary())


def test_words_are_as_frequent_as_zipf_has_it() -> None:
    """The first word occurs about twice as often as the second, and ten times as often as the tenth."""
    counts = true_counts(texts(5000))
    first, second, tenth = (counts[vocabulary()[rank]] for rank in (0, 1, 9))
    assert 1.8 < first / second < 2.2
    assert 8 < first / tenth < 12


def test_one_word_may_be_half_of_all() -> None:
    """And the others keep their proportions."""
    counts = true_counts(texts(5000, 0.5))
    first, second, tenth = (counts[vocabulary()[rank]] for rank in (0, 1, 9))
    assert 0.49 < first / counts.total() < 0.51
    assert 4 < second / tenth < 6


def test_the_truth_counts_every_word_of_every_sentence() -> None:
    """A word that occurs twice in a sentence counts twice."""
    assert true_counts(["to be or not to be", "be quick"]) == {
        "to": 2,
        "be": 3,
        "or": 1,
        "not": 1,
        "quick": 1,
    }
    assert true_counts(texts(100)).total() == sum(len(text.split()) for text in texts(100))
