/// The record of a run, the same for all tasks. Programs write records; tables and reports read them.
///
///   config.json             every option with its value; --config reads it
///   run.json                fovea's version and commit, the machine, the command line: an entry for each start
///   log.jsonl               a line every 10 updates: loss, learning rate, gradient norm; scores of evaluations
///   events.out.tfevents.*   the numbers of log.jsonl for TensorBoard: `tensorboard --logdir runs`
///   examples.SET.jsonl      a line for each example of the test set SET, with the model's answer
///   result.json             scores and other results, and the checksums of the files that they come from
///
/// kept_runs.h describes records without texts, many in a file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/metrics/perplexity.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/spent_time.h"
#include "tensor/storage.h"

namespace fovea {

/// One test example. Metrics compare `hypothesis` with `reference`: texts, or classes, or one tag for each word.
struct TestedExample {
  std::string input = {};  ///< the text that the model read; empty for language models
  std::string reference = {}, hypothesis = {};
  std::vector<std::string> more_references = {};  ///< texts that are as right as `reference`
  Likelihood likelihood = {};                     ///< of the reference; 0 tokens: the task has no likelihoods
  int group = -1;                                 ///< the group that the example belongs to; -1: none
  std::vector<double> probabilities = {};         ///< of each class; empty: the task has no classes
};

/// A number that is not a mean over examples, such as the width of a window in tokens.
struct Measurement {
  std::string name;
  double value = 0;
  int decimals = 2;
};

/// A test set with the model's results.
struct TestResult {
  std::string set = "test";
  std::vector<TestedExample> examples = {};
  std::vector<std::string> metrics = {};  ///< names for scores_of(); bootstrap tests use the first
  TextMetricOptions options = {};
  std::vector<Measurement> measurements = {};
  std::optional<SpentTime> decoding = {};  ///< of all hypotheses together
  // of sequence models, beside the measurements:
  std::optional<double> source_length = {}, pooled_window = {};  ///< in tokens
  /// --spread: the percentage of each attention ("encoder.0.attention") within each distance.
  std::map<std::string, std::map<int, double>> attention_within = {};

  /// The scores of the examples by each of `metrics`. Computed at the first call; the examples must not change after
  /// it.
  const std::vector<TextScore>& scores() const;

  /// Equal for tests on the same examples.
  std::string key() const;

  /// The number of words of each example's input, or of its reference if it has no input; empty if it is not known.
  std::vector<std::size_t> lengths() const;

  mutable std::shared_ptr<const std::vector<TextScore>> known_scores = {};  ///< those of the first call
  std::string known_key = {};  ///< of a kept run, whose examples have no texts; empty: the key of the texts
  std::vector<std::size_t> known_lengths = {};  ///< of a kept run
};

/// The result of a training.
struct TrainingResult {
  std::int64_t updates = 0;
  std::int64_t best_update = 0;
  std::string score_name = {};  ///< of the score that selects the model: "BLEU"
  double best_score = 0;
  bool higher_is_better = true;
  double seconds = 0;             ///< in updates alone, without evaluation
  double update_cpu_seconds = 0;  ///< the same in CPU time of all threads
  /// From the first update to the last and to the choice of the model, evaluation included; cpu_seconds of all threads.
  /// The time between a stop and the --resume is not counted.
  double wall_seconds = 0, cpu_seconds = 0;

  double steps_per_second() const { return double(updates) / seconds; }
  double steps_per_cpu_second() const { return double(updates) / update_cpu_seconds; }
};

/// The result of a finished run.
struct RunResult {
  std::string row = {};    ///< title of its row in the comparison
  std::string trial = {};  ///< of a --search: "rate=0.001"; otherwise empty
  std::uint64_t seed = 1;
  std::size_t number = 0;                ///< in its experiment, from 1; 0: the run is alone
  std::filesystem::path directory = {};  ///< empty: the run has none
  std::int64_t parameters = 0;
  std::optional<TrainingResult> training = {};  ///< empty: a trained model was tested
  Json configuration = {};                      ///< every option of the run
  Json goal = {};                               ///< the options that decide when the run is finished
  std::string failure = {};                     ///< the message of a training that diverged; empty: none
  std::vector<TestResult> tests = {};           ///< empty after a failure
  /// The rows of sheets that the run was made for, by their names (name_of() in report/sheet.h).
  std::vector<std::string> made_for = {};
  // of a kept run, which has no files:
  std::string name = {};                    ///< the name that `reproduce` gives to it
  std::vector<Json> starts = {}, log = {};  ///< as in run.json and log.jsonl
};

/// Scores of the examples by the names of metrics: those of text_metrics(), and from the likelihoods "perplexity" (per
/// token), "word-perplexity" and "bits-per-character". Throws Error for an unknown name.
std::vector<TextScore> scores_of(const std::vector<TestedExample>& examples, const std::vector<std::string>& metrics,
                                 const TextMetricOptions& options);

/// Writes examples.SET.jsonl of every test set, then result.json, into the run's directory.
void save_result(const RunResult& result);

/// Reads the result that save_result() wrote; empty if there is no result.json. Throws Error, with the file, for a file
/// with a wrong checksum and for one that save_result() did not write. The model, a large file, is looked at
/// `with_model` only; it and the texts for `score` may also have been deleted.
std::optional<RunResult> load_result(const std::filesystem::path& directory, bool with_model = false);

/// The result without single examples, and the result from such an object; read_examples(test) reads those of a test.
Json to_json(const RunResult& result);
RunResult result_of(const Json& json, const std::function<void(TestResult&)>& read_examples);

/// The starts of a run: the objects in the run.json of its comparison's directory and of its own. Empty for a damaged
/// file.
std::vector<Json> starts_of(const RunResult& run);
/// The lines of a run's log.
std::vector<Json> log_of(const RunResult& run);

/// How much the score that selects the model improved in the last fifth of the training: its last evaluation against
/// the last one before. Positive: it became better, whether higher or lower scores are. NaN without two such
/// evaluations.
double gain_of_last_fifth(const RunResult& run);

/// The time, command, version and machine of this process, and its GPU if `device` is one.
Json start_entry(const std::string& command, Device device = Device::cpu);

/// A start without the names of machines, directories and files: time, version, processor, threads and GPU.
Json start_without_places(const Json& start);

/// Adds start_entry() to run.json.
void save_start(const std::filesystem::path& directory, const std::string& command, Device device = Device::cpu);

}  // namespace fovea
