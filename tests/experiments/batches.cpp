// Batches of pairs and of labelled texts: their shapes, their order, and their tokens, from memory and from disk.
#include "experiments/support/data/batches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/vocabulary.h"
#include "experiments/support/text/split_mix.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Lengths = std::vector<std::int64_t>;
using Ints = std::vector<std::int32_t>;

/// Many short texts, few long ones.
Lengths random_lengths(std::size_t size, std::int64_t longest, std::uint64_t seed) {
  SplitMix random(seed);
  Lengths lengths(size);
  for (auto& length : lengths) {
    length = std::max<std::int64_t>(1, random.between(1, longest) * random.between(1, longest) / longest);
  }
  return lengths;
}

/// (padded length, rows) and how often.
std::map<std::pair<std::int64_t, std::size_t>, int> shapes(const std::vector<PlannedBatch>& batches) {
  std::map<std::pair<std::int64_t, std::size_t>, int> result;
  for (const PlannedBatch& batch : batches) ++result[{batch.length, batch.examples.size()}];
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batches)

BOOST_AUTO_TEST_CASE(every_example_is_in_one_batch_that_it_fits_with_little_padding) {
  struct Case {
    std::size_t size;
    std::int64_t longest, tokens, multiple;
    double padded = 99;  // at most, in texts' tokens
  };
  for (const Case& one : std::vector<Case>{{1, 5, 8, 8},
                                           {7, 3, 64, 8},
                                           {500, 40, 4096, 8},
                                           {100, 100, 4096, 8, 5},  // every bucket is less than a batch
                                           {20'000, 300, 4096, 8, 1.25},
                                           {3000, 400, 1000, 1},
                                           {999, 130, 144, 16}}) {
    const Lengths lengths = random_lengths(one.size, one.longest, one.size);
    const BatchOptions options{.tokens = one.tokens, .sentences = 0, .length_multiple = one.multiple};
    for (const auto& plan : {training_batches(lengths, options, 1, 0), evaluation_batches(lengths, options)}) {
      std::vector<int> seen(one.size, 0);
      std::int64_t half_empty = 0, padded = 0;
      for (const PlannedBatch& batch : plan) {
        const std::int64_t rows = std::ssize(batch.examples), most = one.tokens / batch.length;
        BOOST_TEST((rows > 0 && batch.length % one.multiple == 0 && batch.length * rows <= one.tokens));
        half_empty += rows * 2 < (most >= 8 ? most / 8 * 8 : most);
        padded += batch.length * rows;
        for (const std::int64_t i : batch.examples) {
          ++seen[std::size_t(i)];
          BOOST_TEST(lengths[std::size_t(i)] <= batch.length);
        }
      }
      BOOST_TEST(std::ranges::all_of(seen, [](int count) { return count == 1; }));
      BOOST_TEST(half_empty <= 1);
      BOOST_TEST(double(padded) < one.padded * std::accumulate(lengths.begin(), lengths.end(), 0.0));
    }
  }
}

BOOST_AUTO_TEST_CASE(shapes_are_few_and_the_same_in_every_epoch) {
  const Lengths lengths = random_lengths(20'000, 300, 3);
  const BatchOptions options{.tokens = 4096, .sentences = 0, .length_multiple = 8};
  const auto first = shapes(training_batches(lengths, options, 1, 0));
  for (std::int64_t epoch = 1; epoch < 4; ++epoch)
    BOOST_TEST((shapes(training_batches(lengths, options, 1, epoch)) == first));
  BOOST_TEST((shapes(training_batches(lengths, options, 2, 0)) == first));
  BOOST_TEST((shapes(evaluation_batches(lengths, options)) == first));
  std::map<std::int64_t, int> row_counts;
  for (const auto& [shape, count] : first) ++row_counts[shape.first];
  BOOST_TEST(row_counts.size() <= 20u);
  for (const auto& [length, kinds] : row_counts) BOOST_TEST(kinds <= 2);
}

BOOST_AUTO_TEST_CASE(order_is_a_function_of_seed_and_epoch) {
  const Lengths lengths = random_lengths(3000, 50, 6);
  const BatchOptions options{.tokens = 512, .sentences = 0, .length_multiple = 8};
  const auto same = [](const std::vector<PlannedBatch>& a, const std::vector<PlannedBatch>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PlannedBatch& x, const PlannedBatch& y) {
      return x.length == y.length && x.examples == y.examples;
    });
  };
  const auto plan = training_batches(lengths, options, 7, 3);
  BOOST_TEST(same(plan, training_batches(lengths, options, 7, 3)));
  BOOST_TEST(!same(plan, training_batches(lengths, options, 7, 4)));
  BOOST_TEST(!same(plan, training_batches(lengths, options, 8, 3)));
  BOOST_TEST(!std::ranges::is_sorted(plan, [](const auto& a, const auto& b) { return a.length < b.length; }));
  std::set<std::vector<std::int64_t>> companies;  // the same examples do not meet every time
  for (const PlannedBatch& batch : plan) companies.insert(batch.examples);
  for (const PlannedBatch& batch : training_batches(lengths, options, 7, 4)) companies.insert(batch.examples);
  BOOST_TEST(companies.size() > plan.size() * 3 / 2);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_the_budget_is_refused) {
  const Lengths lengths = {3, 65, 2};
  const std::string message =
      message_of([&] { training_batches(lengths, {.tokens = 64, .sentences = 0, .length_multiple = 8}, 1, 0); });
  BOOST_TEST(message ==
             "--batch-tokens 64: text 1 has 65 tokens, 72 when padded: raise --batch-tokens or set --max-length");
  BOOST_TEST(contains(message_of([&] { training_batches(lengths, {.tokens = 0}, 1, 0); }), "--batch-tokens 0"));
  BOOST_TEST(contains(
      message_of([&] { training_batches(lengths, {.tokens = 99, .sentences = 0, .length_multiple = 0}, 1, 0); }),
      "--length-multiple 0"));
  BOOST_TEST(evaluation_batches(Lengths{}, {}).empty());
}

BOOST_AUTO_TEST_CASE(a_batch_has_what_is_read_and_what_is_written) {
  EncodedPairs pairs;
  pairs.append({7, 8}, std::vector<int>{9, 10, 11});
  pairs.append({5}, std::vector<int>{6});
  const BatchOptions options{.tokens = 64, .sentences = 0, .length_multiple = 4};
  const PairBatch batch = fill({.length = 4, .examples = {1, 0}}, pairs, options);
  BOOST_TEST(batch.source == (Ints{5, end_id, 0, 0, 7, 8, end_id, 0}));
  BOOST_TEST(batch.source_lengths == (Ints{2, 3}));
  BOOST_TEST(batch.target_in == (Ints{begin_id, 6, 0, 0, begin_id, 9, 10, 11}));
  BOOST_TEST(batch.target_out == (Ints{6, end_id, 0, 0, 9, 10, 11, end_id}));
  BOOST_TEST(batch.target_lengths == (Ints{2, 4}));
  BOOST_TEST(batch.target_tokens == 6);

  EncodedPairs labelled;
  labelled.has_labels = true;
  labelled.append({}, std::vector<int>{3});  // no row is padding alone
  labelled.append({7, 8, 9}, std::vector<int>{1});
  BOOST_TEST(labelled.lengths == (Lengths{1, 3}));
  const PairBatch texts = fill({.length = 8, .examples = {1, 0}}, labelled, options);
  BOOST_TEST(texts.source == (Ints{7, 8, 9, 0, 0, 0, 0, 0, unknown_id, 0, 0, 0, 0, 0, 0, 0}));
  BOOST_TEST(texts.source_lengths == (Ints{3, 1}));
  BOOST_TEST(texts.labels().to_vector<int>() == (Ints{1, 3}));
}

BOOST_AUTO_TEST_CASE(batches_give_every_pair_once_and_continue_from_any_place) {
  EncodedPairs pairs;
  SplitMix random(11);
  for (int k = 0; k < 200; ++k)  // of any length, 0 included; the tokens say k
    pairs.append(std::vector<int>(random.below(20), 100 + k), std::vector<int>(random.below(25), 300 + k));
  const BatchOptions options{.tokens = 256, .sentences = 0, .length_multiple = 8};
  PairBatches whole(pairs, options, 5);
  const std::int64_t per_epoch = whole.batches_per_epoch();
  BOOST_REQUIRE(per_epoch > 4);
  std::vector<PairBatch> expected;
  std::vector<int> seen(200, 0);
  for (std::int64_t i = 0; i < 2 * per_epoch; ++i) {
    BOOST_TEST(whole.epoch() == i / per_epoch);
    BOOST_TEST(whole.position() == i % per_epoch);
    expected.push_back(whole.next());
    for (std::int64_t k : expected.back().indices) ++seen[std::size_t(k)];
  }
  BOOST_TEST(seen == std::vector<int>(200, 2));
  for (const std::int64_t start : {std::int64_t{2}, per_epoch - 1, per_epoch + 3}) {
    PairBatches batches(pairs, options, 5);
    batches.next();
    batches.seek(start / per_epoch, start % per_epoch);
    for (std::int64_t i = start; i < 2 * per_epoch; ++i) {
      BOOST_TEST(batches.position() == i % per_epoch);
      const PairBatch batch = batches.next();
      BOOST_TEST(batch.source == expected[std::size_t(i)].source);
      BOOST_TEST(batch.target_out == expected[std::size_t(i)].target_out);
    }
  }
  BOOST_TEST(contains(message_of([&] { whole.seek(0, per_epoch); }), "position"));
  BOOST_TEST(contains(message_of([&] { whole.seek(-1, 0); }), "epoch -1"));
  const EncodedPairs none;
  BOOST_TEST(contains(message_of([&] { PairBatches(none, options, 1); }), "no example"));
}

BOOST_AUTO_TEST_CASE(batches_by_sentences_have_as_many_rows_whatever_their_length) {
  const Lengths lengths = random_lengths(1000, 90, 4);
  const BatchOptions options{.tokens = 16, .sentences = 64, .length_multiple = 8};
  std::int64_t full = 0;
  const auto plan = training_batches(lengths, options, 1, 0);
  for (const PlannedBatch& batch : plan) {
    BOOST_TEST(batch.examples.size() <= 64u);
    full += batch.examples.size() == 64;
  }
  BOOST_TEST(full > 8);
}

BOOST_AUTO_TEST_SUITE_END()
