// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests hashing and vocabularies.
#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "data/terms/vocabulary_text.hpp"
#include "rueda/data/hash.hpp"
#include "rueda/data/vocabulary.hpp"
#include "rueda/training/random.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;
using training::Random;
using Ids = std::vector<std::int64_t>;

/// Texts as an array of bytes and offsets.
struct Texts {
    std::string bytes;
    Ids offsets = {0};

    Texts(std::initializer_list<std::string_view> texts) {
        for (const std::string_view text : texts) {
            add(text);
        }
    }
    void add(std::string_view text) {
        bytes += text;
        offsets.push_back(static_cast<std::int64_t>(bytes.size()));
    }
};

Ids ids_of(const Vocabulary& vocabulary, const Texts& texts) {
    Ids ids(texts.offsets.size() - 1);
    vocabulary.look_up(texts.bytes, texts.offsets, ids);
    return ids;
}

Ids count(Vocabulary& vocabulary, const Texts& texts) {
    Ids ids(texts.offsets.size() - 1);
    vocabulary.look_up_and_count(texts.bytes, texts.offsets, ids);
    return ids;
}

std::vector<std::string> terms_of(const Vocabulary& vocabulary) {
    std::vector<std::string> terms;
    for (std::int64_t id = 0; id < vocabulary.size(); ++id) {
        terms.emplace_back(vocabulary.term(id));
    }
    return terms;
}

Vocabulary growing(std::int64_t most_terms, std::int64_t min_count = 1, std::int64_t most_unknown = 1000) {
    return Vocabulary(std::vector<std::string>(),
                      {.most_terms = most_terms, .grows = true, .min_count = min_count, .most_unknown = most_unknown});
}

std::string vocabulary_refusal(std::string_view content, const VocabularyOptions& options = {}) {
    const Folder folder;
    const std::string path = folder.file("terms.txt");
    write_file(path, content);
    std::string message = message_of([&] { static_cast<void>(Vocabulary::from_file(path, options)); });
    const std::size_t at = message.find(path);
    return at == std::string::npos ? message : message.replace(at, path.size(), "terms.txt");
}

TEST_CASE("Hashes are those of XXH64", "[unit]") {
    // These numbers are from libxxhash 0.8.1.
    CHECK(hash_text("") == 0xEF46DB3751D8E999);
    CHECK(hash_text("a") == 0xD24EC4F1A98C6E5B);
    CHECK(hash_text("abc", 42) == 0x13C1D910702770E6);
    CHECK(hash_text("68fd1e64") == 0x5D3CCD85C9C22FE4);
    CHECK(hash_text("click-through rate", 42) == 0x7A3B34ACBAC37DE1);
    CHECK(hash_text("The quick brown fox jumps over the lazy dog") == 0x0B242D361FDA71BC);
    std::string bytes;
    std::uint64_t chain = 0;  // each hash is the seed for hashing the next text, which is one byte longer
    for (int length = 0; length <= 200; ++length) {
        chain = hash_text(bytes, chain);
        bytes.push_back(static_cast<char>(length * 7 + 1));
    }
    CHECK(chain == 0x6FBC2C203F61FB7A);
}

TEST_CASE("Buckets divide the hashes evenly", "[unit]") {
    CHECK(bucket_of(0, 1000) == 0);
    CHECK(bucket_of(~std::uint64_t{0}, 1000) == 999);
    CHECK(bucket_of(std::uint64_t{1} << 63, 1000) == 500);
    CHECK(bucket_of(0x5D3CCD85C9C22FE4, 1'000'000) == 364'209);
    Ids counts(10);
    for (int i = 0; i < 10'000; ++i) {
        ++counts[static_cast<std::size_t>(bucket_of(hash_text(std::to_string(i)), 10))];
    }
    CHECK(*std::min_element(counts.begin(), counts.end()) > 900);
    CHECK(*std::max_element(counts.begin(), counts.end()) < 1100);
}

TEST_CASE("Columns of texts and of integers are hashed in place, and an integer counts as its text", "[unit]") {
    const Csv texts{.columns = {{"a", DType::uint8}, {"b"}}};
    const Csv integers{.columns = {{"a", DType::int64}, {"b"}}};
    std::string rows = "a,b\n";
    for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-17}, INT64_MAX, INT64_MIN}) {
        rows += std::to_string(number) + ",1\n";
    }
    Batch as_texts = parse(rows, texts);
    Batch as_integers = parse(rows, integers);
    hash_columns({"a"}, {.buckets = 1000, .seed = 5})(as_texts);
    hash_column(as_integers.column("a"), {.buckets = 1000, .seed = 5});
    Ids expected;
    for (const char* text : {"0", "-17", "9223372036854775807", "-9223372036854775808"}) {
        expected.push_back(bucket_of(hash_text(text, 5), 1000));
    }
    CHECK(values<std::int64_t>(as_texts, "a") == expected);
    CHECK(values<std::int64_t>(as_integers, "a") == expected);
    CHECK(as_texts.column("a").offsets().empty());
    CHECK_THAT(message_of([&] { hash_column(as_texts.column("b"), {.buckets = 3}); }),
               Contains("column 'b' has dtype float32; expected texts (uint8) or integers (int64)"));
    CHECK_THAT(message_of([&] { hash_column(as_texts.column("a"), {}); }), Contains("buckets is 0"));
    Column bytes{.name = "bytes", .dtype = DType::uint8, .width = 1, .data = {}, .offset_data = {}};
    bytes.data.resize(3);
    CHECK_THAT(message_of([&] { hash_column(bytes, {.buckets = 3}); }),
               Contains("column 'bytes' has 3 bytes and 0 offsets"));
    CHECK(bytes.data.size() == 3);
    Batch libsvm = parse("1 5:2 7:1\n0 5:1\n", Libsvm{});
    hash_column(libsvm.column("index"), {.buckets = 100});
    CHECK(offsets(libsvm, "index") == Ids{0, 2, 3});
    CHECK(values<std::int64_t>(libsvm, "index") ==
          Ids{bucket_of(hash_text("5"), 100), bucket_of(hash_text("7"), 100), bucket_of(hash_text("5"), 100)});
}

TEST_CASE("A pipeline hashes and looks up in its threads, in every batch", "[threads]") {
    std::string rows;
    Random random(11);
    Ids expected;
    for (int i = 0; i < 5000; ++i) {
        const auto word = "w" + std::to_string(random.below(300));
        rows += word + "," + word + "\n";
        expected.push_back(std::stoll(word.substr(1)) < 100 ? std::stoll(word.substr(1)) : 100);
    }
    std::vector<std::string> terms;
    for (int i = 0; i < 100; ++i) {
        terms.push_back("w" + std::to_string(i));
    }
    PipelineOptions options{.sources = memory("rows", rows),
                            .format = Csv{.columns = {{"a", DType::uint8}, {"b", DType::uint8}}, .header = false},
                            .batch = 64};
    options.epochs = 2;
    options.threads = 3;
    options.maps = {look_up_columns({"a"}, std::make_shared<const Vocabulary>(terms)),
                    hash_columns({"b"}, {.buckets = 1000})};
    Pipeline pipeline(options);
    Batch batch;
    for (int epoch = 0; epoch < 2; ++epoch) {
        Ids found;
        while (pipeline.next(batch)) {
            const auto ids = values<std::int64_t>(batch, "a");
            found.insert(found.end(), ids.begin(), ids.end());
            CHECK(batch.column("b").dtype == DType::int64);
        }
        CHECK(found == expected);
    }
}

TEST_CASE("A vocabulary file has a term in each line, and the id is the number of the line", "[unit]") {
    const Folder folder;
    const std::string path = folder.file("terms.txt");
    write_file(path, "\xef\xbb\xbfone\r\ntwo words\nd\xc3\xa9j\xc3\xa0\n\xf0\x9f\x8e\xb2");
    const Vocabulary vocabulary = Vocabulary::from_file(path, {.unknown_buckets = 3, .seed = 9});
    CHECK(terms_of(vocabulary) ==
          std::vector<std::string>{"one", "two words", "d\xc3\xa9j\xc3\xa0", "\xf0\x9f\x8e\xb2"});
    CHECK(vocabulary.size() == 4);
    CHECK(vocabulary.ids() == 7);
    CHECK(ids_of(vocabulary, {"two words", "three", "", "one", "\xf0\x9f\x8e\xb2"}) ==
          Ids{1, 4 + bucket_of(hash_text("three", 9), 3), 4 + bucket_of(hash_text("", 9), 3), 0, 3});
    CHECK(vocabulary.id_of("one") == 0);
    CHECK(vocabulary.id_of("on") == 4 + bucket_of(hash_text("on", 9), 3));
    CHECK(Vocabulary::from_file(path, {.unknown_buckets = 0}).id_of("?") == -1);
    CHECK(Vocabulary::from_file(path, {.most_terms = 100}).id_of("?") == 100);
    CHECK_THAT(message_of([&] { static_cast<void>(vocabulary.term(4)); }), Contains("there is no term 4"));
}

TEST_CASE("A wrong vocabulary file is an error that names file, line and remedy", "[unit]") {
    CHECK(vocabulary_refusal("a\nb\na\n") ==
          "reading the vocabulary 'terms.txt', line 3: 'a' is already line 1; each term has one id, so remove one of "
          "the two");
    CHECK(vocabulary_refusal("a\n\nb\n") ==
          "reading the vocabulary 'terms.txt', line 2: it is empty, expected a term; correct or remove it");
    CHECK(vocabulary_refusal("a\nb\xff\n") ==
          "reading the vocabulary 'terms.txt', line 2: its byte 2 (0xff) is not UTF-8, expected a text in UTF-8; "
          "correct or remove it");
    CHECK_THAT(vocabulary_refusal("a\rb\n"), Contains("line 1: it contains the end of a line"));
    CHECK_THAT(vocabulary_refusal("a\nb\nc\n", {.most_terms = 2}),
               Contains("line 3: there are more than 2 terms; remove terms, or raise most_terms"));
    CHECK_THAT(vocabulary_refusal(std::string(70'000, 'a')),
               Contains("line 1: it has 70000 bytes, expected at most 65535"));
    CHECK_THAT(vocabulary_refusal(""), Contains("there is no term; expected at least one"));
    CHECK(vocabulary_refusal("", {.most_terms = 5, .grows = true}) == "no error");
    CHECK_THAT(message_of([] { static_cast<void>(Vocabulary::from_file("/there/is/no/file")); }),
               Contains("'/there/is/no/file'"));
}

TEST_CASE("Options of a vocabulary that are out of their range are errors", "[unit]") {
    const std::vector<std::string> terms = {"a"};
    const auto refused = [&](VocabularyOptions options) {
        return message_of([&] { static_cast<void>(Vocabulary(terms, options)); });
    };
    CHECK_THAT(refused({.grows = true}), Contains("say how many terms it may have"));
    CHECK_THAT(refused({.most_terms = -1}), Contains("most_terms is -1"));
    CHECK_THAT(refused({.unknown_buckets = -1}), Contains("unknown_buckets is -1"));
    CHECK_THAT(refused({.min_count = 0}), Contains("min_count is 0"));
    const Vocabulary vocabulary(terms);
    Ids ids(1);
    CHECK_THAT(message_of([&] { vocabulary.look_up("ab", Ids{0, 3}, ids); }), Contains("the last offset is 3"));
    CHECK_THAT(message_of([&] { vocabulary.look_up("ab", Ids{1, 0}, ids); }), Contains("an offset is 0"));
    CHECK_THAT(message_of([&] { vocabulary.look_up("ab", Ids{0, 1, 2}, ids); }), Contains("places for 1 ids"));
}

TEST_CASE("UTF-8 is recognised as Unicode defines it", "[unit]") {
    for (const char* valid : {"\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
        CHECK(!why_no_term(valid));
    }
    for (const char* invalid : {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                                "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xc3", "a\xc3(", "\xe2(\xa1"}) {
        INFO(invalid);
        CHECK(why_no_term(invalid));
    }
}

TEST_CASE("A large vocabulary finds the same ids as a map", "[unit]") {
    Random random(2);
    std::unordered_map<std::string, std::int64_t> reference;
    std::vector<std::string> terms;
    while (terms.size() < 20'000) {
        std::string term = std::to_string(random.below(1'000'000'000)) + std::string(random.below(40), 'x');
        if (reference.emplace(term, static_cast<std::int64_t>(terms.size())).second) {
            terms.push_back(std::move(term));
        }
    }
    const Vocabulary vocabulary(terms);
    Texts texts{};
    Ids expected;
    for (int i = 0; i < 50'000; ++i) {
        std::string text = terms[random.below(terms.size())];
        if (random.below(3) == 0) {
            text += "?";
        }
        const auto found = reference.find(text);
        expected.push_back(found == reference.end() ? 20'000 : found->second);
        texts.add(text);
    }
    CHECK(ids_of(vocabulary, texts) == expected);
}

TEST_CASE("Unknown texts become terms in the order of their counts, then of their bytes", "[unit]") {
    Vocabulary vocabulary = growing(4);
    CHECK(count(vocabulary, {"b", "a", "c", "c", "d", "a\nb", "", "\xff", "e"}) == Ids(9, 4));
    CHECK(vocabulary.merge(vocabulary.unmerged()) == 4);
    CHECK(terms_of(vocabulary) == std::vector<std::string>{"c", "a", "b", "d"});
    CHECK(count(vocabulary, {"e", "c"}) == Ids{4, 0});
    CHECK(vocabulary.merge(vocabulary.unmerged()) == 0);  // the vocabulary is full
    CHECK(vocabulary.size() == 4);
}

TEST_CASE("A text needs min_count occurrences, which may lie before and behind an agreement", "[unit]") {
    Vocabulary vocabulary = growing(10, 3);
    count(vocabulary, {"a", "a", "b", "b", "b"});
    CHECK(vocabulary.merge(vocabulary.unmerged()) == 1);
    CHECK(terms_of(vocabulary) == std::vector<std::string>{"b"});
    count(vocabulary, {"a", "c"});
    CHECK(vocabulary.merge(vocabulary.unmerged()) == 1);
    CHECK(terms_of(vocabulary) == std::vector<std::string>{"b", "a"});
}

TEST_CASE("The terms do not depend on the number of ranks or on the order of the texts", "[unit]") {
    Random random(7);
    std::vector<std::vector<std::string>> epochs(3);
    for (auto& epoch : epochs) {
        for (int i = 0; i < 3000; ++i) {
            epoch.push_back("t" + std::to_string(random.below(1 + random.below(400))));
        }
    }
    std::vector<std::string> expected;
    std::string expected_state;
    for (const std::size_t ranks : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{16}}) {
        std::vector<Vocabulary> vocabularies;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            vocabularies.push_back(growing(150, 5));
        }
        for (auto epoch : epochs) {
            for (std::size_t i = epoch.size() - 1; i > 0; --i) {
                std::swap(epoch[i], epoch[random.below(i + 1)]);
            }
            for (const std::string& text : epoch) {
                count(vocabularies[random.below(ranks)], {text});
            }
            std::string messages;
            for (const Vocabulary& each : vocabularies) {
                messages += each.unmerged();
            }
            for (Vocabulary& each : vocabularies) {
                each.merge(messages);
            }
        }
        if (expected.empty()) {
            expected = terms_of(vocabularies.front());
            expected_state = vocabularies.front().state();
            CHECK(expected.size() == 150);
        }
        for (const Vocabulary& each : vocabularies) {
            CHECK(terms_of(each) == expected);
            CHECK(each.state() == expected_state);
        }
    }
}

TEST_CASE("Ranks whose vocabularies differ get an error, and keep their vocabularies", "[unit]") {
    Vocabulary mine = growing(10);
    Vocabulary other = growing(11);
    count(mine, {"a"});
    const std::string both = mine.unmerged() + other.unmerged();
    CHECK_THAT(message_of([&] { mine.merge(both); }), Contains("the vocabulary of rank 1 differs from that of rank 0"));
    CHECK_THAT(message_of([&] { mine.merge(other.unmerged()); }), Contains("counts of another vocabulary"));
    CHECK_THAT(message_of([&] { mine.merge(""); }), Contains("merge() got no bytes"));
    CHECK(mine.size() == 0);
    CHECK(mine.merge(mine.unmerged()) == 1);
    const std::string whole = mine.unmerged();
    for (std::size_t size = 1; size < whole.size(); ++size) {
        CHECK_THAT(message_of([&] { mine.merge(whole + whole.substr(0, size)); }),
                   Contains("the counts of rank 1 are damaged"));
    }
    count(mine, {"b"});
    std::string wrong = mine.unmerged();
    wrong.back() = '\n';
    CHECK_THAT(message_of([&] { mine.merge(wrong); }), Contains("the counts of rank 0 are damaged"));
}

TEST_CASE("The number of unknown texts in memory is limited", "[unit]") {
    Vocabulary vocabulary = growing(100, 10, 5);
    for (int i = 0; i < 20; ++i) {
        count(vocabulary, {"t" + std::to_string(i)});
    }
    CHECK(vocabulary.left_out() == 15);
    count(vocabulary, {"t0"});  // t0 is already counted, so it is not left out
    CHECK(vocabulary.left_out() == 15);
    CHECK(vocabulary.merge(vocabulary.unmerged()) == 0);
    count(vocabulary, {"u", "v"});
    // There are seven candidates, of which five are kept: t0, whose count is 2, and the first four of the others.
    vocabulary.merge(vocabulary.unmerged());
    CHECK(vocabulary.left_out() == 17);
    CHECK_THAT(vocabulary.state(), Contains("\n2 t0\n1 t1\n1 t2\n1 t3\n1 t4\n"));
}

TEST_CASE("A saved vocabulary is a file that is read again, and a state continues the counts", "[unit]") {
    const Folder folder;
    const std::string path = folder.file("terms.txt");
    Vocabulary vocabulary = growing(3, 2);
    count(vocabulary, {"b", "b", "a", "a", "c"});
    // The state describes the vocabulary at the last agreement. The counts since then are not in the state, but the
    // vocabulary keeps them.
    CHECK(vocabulary.state() == "rueda vocabulary 1\n3 1 0 1 0 0\n");
    vocabulary.merge(vocabulary.unmerged());
    vocabulary.save(path);
    CHECK(read_file(path) == "a\nb\n");
    CHECK(terms_of(Vocabulary::from_file(path)) == terms_of(vocabulary));
    const std::string state = vocabulary.state();
    CHECK(state == "rueda vocabulary 1\n3 1 0 1 2 1\na\nb\n1 c\n");
    Vocabulary resumed = growing(3, 2);
    resumed.restore(state);
    CHECK(resumed.unmerged() == vocabulary.unmerged());
    count(resumed, {"c"});
    resumed.merge(resumed.unmerged());
    CHECK(terms_of(resumed) == std::vector<std::string>{"a", "b", "c"});
    resumed.freeze();
    CHECK(!resumed.grows());
    CHECK(count(resumed, {"x", "b"}) == Ids{3, 1});
    CHECK(resumed.state() == "rueda vocabulary 1\n3 1 0 0 3 0\na\nb\nc\n");
    Vocabulary evaluated = growing(3, 2);
    evaluated.restore(resumed.state());
    CHECK(!evaluated.grows());  // the state says that the vocabulary was frozen
    evaluated.restore(resumed.state());
    CHECK_THAT(message_of([&] { evaluated.restore(state); }),
               Contains("other terms than this vocabulary, which is frozen"));
    CHECK_THAT(message_of([&] { resumed.save("/there/is/no/folder/terms"); }), Contains("/there/is/no/folder/terms"));
}

TEST_CASE("A damaged state is an error, and the vocabulary stays as it is", "[unit]") {
    Vocabulary vocabulary = growing(3, 2);
    count(vocabulary, {"a", "a", "c"});
    vocabulary.merge(vocabulary.unmerged());
    const std::string state = vocabulary.state();
    for (std::size_t size = 0; size < state.size(); ++size) {
        CHECK_THAT(message_of([&] { vocabulary.restore(state.substr(0, size)); }), Contains("damaged"));
    }
    CHECK_THAT(message_of([&] { vocabulary.restore(state + "x"); }), Contains("1 bytes follow its last line"));
    CHECK_THAT(message_of([&] { vocabulary.restore("rueda vocabulary 1\n3 1 0 1 1 1\na\n1 a\n"); }),
               Contains("count 0 of 1 is wrong"));
    CHECK_THAT(message_of([&] { vocabulary.restore("rueda vocabulary 1\n3 1 0 1 2 0\na\na\n"); }),
               Contains("'a' is already term 0"));
    CHECK_THAT(message_of([&] { growing(4).restore(state); }),
               Contains("the state has most_terms = 3, unknown_buckets = 1 and seed = 0"));
    CHECK(vocabulary.state() == state);
}

TEST_CASE("A growing vocabulary must not be a stage of the pipeline, whose threads work ahead", "[unit]") {
    CHECK_THAT(
        message_of([] { static_cast<void>(look_up_columns({"a"}, std::make_shared<const Vocabulary>(growing(3)))); }),
        Contains("the pipeline prepares batches ahead"));
}

}  // namespace
