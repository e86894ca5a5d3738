// Sentence pairs as batches, from memory and from disk.
#include "experiments/support/training/pair_batches.h"

#include <random>

#include <boost/test/unit_test.hpp>

#include "experiments/support/text/vocabulary.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Ints = std::vector<std::int32_t>;

/// Pair k has texts of any length, 0 included, whose tokens say k and their place.
void add_pairs(EncodedPairs& pairs, int count, std::mt19937_64& random) {
  for (int k = 0; k < count; ++k) {
    std::vector<int> source(random() % 20), target(random() % 25);
    for (std::size_t t = 0; t < source.size(); ++t) source[t] = special_tokens + 100 * k + static_cast<int>(t);
    for (std::size_t t = 0; t < target.size(); ++t) target[t] = special_tokens + 100 * k + 50 + static_cast<int>(t);
    pairs.append(source, target);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pair_batches)

BOOST_AUTO_TEST_CASE(texts_come_back_from_memory_and_from_disk) {
  Folder folder;
  for (std::size_t memory : {std::size_t{0}, std::size_t{200}, TokenStore::default_memory}) {
    std::mt19937_64 random(3);
    TokenStore store(memory, folder.path);
    std::vector<std::vector<int>> texts;
    for (int k = 0; k < 300; ++k) {
      std::vector<int> text(random() % 30);
      for (int& token : text) token = static_cast<int>(random() % 50000);
      store.append(text);
      texts.push_back(text);
    }
    BOOST_TEST(folder.files() == 0u);  // the file has no name
    BOOST_REQUIRE(store.size() == texts.size());
    for (std::size_t k = texts.size(); k-- > 0;) {
      BOOST_TEST(store.lengths()[k] == static_cast<std::int64_t>(texts[k].size()));
      std::vector<int> read(texts[k].size() + 2, -1), expected = texts[k];
      store.read(k, read);
      expected.insert(expected.end(), {-1, -1});
      BOOST_TEST(read == expected);
    }
  }
  int status = status_in_child([&] {
    ::setenv("TMPDIR", (folder / "none").c_str(), 1);
    TokenStore small, large(0);
    small.append(std::vector<int>{1});  // which needs no file
    const std::string message = message_of([&] { large.append(std::vector<int>{1}); });
    return contains(message, "TMPDIR: '" + (folder / "none").string() + "' is no directory") ? 0 : 1;
  });
  BOOST_TEST(status == 0);
  TokenStore nowhere(0, folder / "none");
  BOOST_TEST(contains(message_of([&] { nowhere.append(std::vector<int>{1}); }), "/none: cannot be written: No such"));
}

BOOST_AUTO_TEST_CASE(a_batch_has_what_is_read_and_what_is_said) {
  EncodedPairs pairs;
  pairs.append({7, 8}, std::vector<int>{9, 10, 11});
  pairs.append({5}, std::vector<int>{6});
  const BatchOptions options{.tokens = 64, .sentences = 0, .length_multiple = 4};
  PairBatch batch = fill({.length = 4, .examples = {1, 0}}, pairs, options);
  BOOST_TEST(batch.source == (Ints{5, end_id, 0, 0, 7, 8, end_id, 0}));
  BOOST_TEST(batch.source_lengths == (Ints{2, 3}));
  BOOST_TEST(batch.target_in == (Ints{begin_id, 6, 0, 0, begin_id, 9, 10, 11}));
  BOOST_TEST(batch.target_out == (Ints{6, end_id, 0, 0, 9, 10, 11, end_id}));
  BOOST_TEST(batch.target_lengths == (Ints{2, 4}));
  BOOST_TEST(batch.target_tokens == 6);
}

BOOST_AUTO_TEST_CASE(batches_give_every_pair_once_and_continue_from_any_place) {
  EncodedPairs pairs;
  std::mt19937_64 random(11);
  add_pairs(pairs, 200, random);
  const BatchOptions options{.tokens = 256, .sentences = 0, .length_multiple = 8};
  PairBatches whole(pairs, options, 5);
  const std::int64_t per_epoch = whole.batches_per_epoch();
  std::vector<PairBatch> expected;
  std::vector<int> seen(200, 0);
  for (std::int64_t i = 0; i < 2 * per_epoch; ++i) {
    BOOST_TEST(whole.epoch() == i / per_epoch);
    BOOST_TEST(whole.position() == i % per_epoch);
    expected.push_back(whole.next());
    for (std::int64_t k : expected.back().indices) ++seen[static_cast<std::size_t>(k)];
  }
  BOOST_TEST(seen == std::vector<int>(200, 2));
  for (const std::int64_t start : {std::int64_t{2}, per_epoch - 1, per_epoch + 3}) {
    PairBatches batches(pairs, options, 5);
    batches.next();
    batches.seek(start / per_epoch, start % per_epoch);
    BOOST_TEST(batches.position() == start % per_epoch);
    for (std::int64_t i = start; i < 2 * per_epoch; ++i) {
      PairBatch batch = batches.next();
      BOOST_TEST(batch.source == expected[static_cast<std::size_t>(i)].source);
      BOOST_TEST(batch.target_out == expected[static_cast<std::size_t>(i)].target_out);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
