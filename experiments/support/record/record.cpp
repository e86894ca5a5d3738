#include "experiments/support/record/record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <set>

#include <fmt/chrono.h>
#include <omp.h>
#include <unistd.h>

#include "experiments/support/program/files.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/program/run_log.h"
#include "experiments/support/record/version.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/kernels.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

std::string examples_file(const std::string& set) { return "examples." + file_name_for(set) + ".jsonl"; }

/// The checksum of the content of result.json without this checksum itself.
std::string result_checksum(Json result) {
  result["checksums"].erase("result.json");
  return checksum_of(text_of(result));
}

/// JSON has no NaN and no infinity; they are saved as null.
void read(const Json& json, double& value) { value = json.is_null() ? std::nan("") : json.get<double>(); }
template <class Value>
void read(const Json& json, Value& value) {
  json.get_to(value);
}

double number_of(const Json& json) {
  double value = 0;
  read(json, value);
  return value;
}

/// Calls field(key, member, absent) for each member of an example but `probabilities`. A member that equals `absent` is
/// not written.
template <class Example, class Field>
void for_fields(Example& example, const Field& field) {
  const std::string empty;
  field("input", example.input, empty);
  field("reference", example.reference, std::string(1, '\0'));  // no text is this one: always written
  field("more_references", example.more_references, std::vector<std::string>());
  field("hypothesis", example.hypothesis, empty);
  field("negative_log_likelihood", example.likelihood.negative_log, 0.0);
  field("tokens", example.likelihood.tokens, std::int64_t{0});
  field("words", example.likelihood.words, std::int64_t{0});
  field("characters", example.likelihood.characters, std::int64_t{0});
  field("group", example.group, -1);
}

Json to_json(const TestedExample& example) {
  Json json;
  for_fields(example, [&](const char* key, const auto& value, const auto& absent) {
    if (value != absent) json[key] = value;
  });
  if (!example.probabilities.empty()) json["probabilities"] = example.probabilities;
  return json;
}

TestedExample example_of(const Json& json) {
  TestedExample example;
  json.at("reference");
  for_fields(example, [&](const char* key, auto& value, const auto&) {
    if (json.contains(key)) read(json[key], value);
  });
  for (const Json& one : json.value("probabilities", Json::array())) example.probabilities.push_back(number_of(one));
  return example;
}

void save_examples(const fs::path& path, const std::vector<TestedExample>& examples) {
  std::string lines;
  for (const TestedExample& example : examples) lines += text_of(to_json(example)) + "\n";
  write_file_atomically(path, lines);
}

std::vector<TestedExample> load_examples(const fs::path& path) {
  std::vector<TestedExample> examples;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    reading_json(fmt::format("{}:{}", path.string(), examples.size() + 1),
                 [&] { examples.push_back(example_of(parse_json(line))); });
  return examples;
}

/// Calls field(key, member) for each member of a training's result.
template <class Training, class Field>
void for_members(Training& training, const Field& field) {
  field("updates", training.updates);
  field("best_update", training.best_update);
  field("selected_by", training.score_name);
  field("higher_is_better", training.higher_is_better);
  field("best_score", training.best_score);
  field("update_seconds", training.seconds);
  field("update_cpu_seconds", training.update_cpu_seconds);
  field("wall_seconds", training.wall_seconds);
  field("cpu_seconds", training.cpu_seconds);
}

Json to_json(const TrainingResult& training) {
  Json json;
  for_members(training, [&](const char* key, const auto& value) { json[key] = value; });
  json.update({{"steps_per_second", training.steps_per_second()}, {"threads", omp_get_max_threads()}});
  return json;
}

TrainingResult training_of(const Json& json) {
  TrainingResult training;
  for_members(training, [&](const char* key, auto& value) { read(json.at(key), value); });
  return training;
}

/// The JSON of one test set, without its examples.
Json to_json(const TestResult& test) {
  Json json = {{"examples", test.examples.size()}, {"metrics", test.metrics}};
  json["tokenize"] = name_of(test.options.tokenization);
  for (const TextScore& score : test.scores()) json["scores"][score.name] = score.metric.value();
  for (const Measurement& one : test.measurements)
    json["measurements"].push_back({{"name", one.name}, {"value", one.value}, {"decimals", one.decimals}});
  if (test.source_length) json["source_length"] = *test.source_length;
  if (test.pooled_window) json["pooled_window"] = *test.pooled_window;
  for (const auto& [name, shares] : test.attention_within)
    for (const auto& [distance, percent] : shares) json["attention_within"][name][std::to_string(distance)] = percent;
  if (test.decoding)
    json.update({{"decoding_seconds", test.decoding->wall}, {"decoding_cpu_seconds", test.decoding->cpu}});
  return json;
}

TestResult test_of(const std::string& set, const Json& json) {
  TestResult test{.set = set, .metrics = json.at("metrics")};
  test.options.tokenization = tokenization_of(json.at("tokenize").get<std::string>());
  for (const Json& one : json.value("measurements", Json::array()))
    test.measurements.push_back({one.at("name"), number_of(one.at("value")), one.at("decimals")});
  auto number = [&](const char* key) {
    return json.contains(key) ? std::optional<double>(number_of(json[key])) : std::nullopt;
  };
  test.source_length = number("source_length");
  test.pooled_window = number("pooled_window");
  if (json.contains("attention_within"))
    for (const auto& [name, shares] : json["attention_within"].items())
      for (const auto& [distance, percent] : shares.items())
        if (const std::optional<int> tokens = fovea::number<int>(distance))
          test.attention_within[name][*tokens] = number_of(percent);
  if (json.contains("decoding_seconds"))
    test.decoding = SpentTime{json.at("decoding_seconds"), json.at("decoding_cpu_seconds")};
  return test;
}

constexpr const char* model_file = "best.safetensors";

/// Files beside the record, which may be deleted: the model, and the texts for `score`.
bool is_beside_record(const std::string& name) {
  return name == model_file ||
         (name.ends_with(".txt") && (name.starts_with("hypotheses") || name.starts_with("references")));
}

void require_undamaged(const fs::path& directory, const Json& checksums, bool with_model) {
  for (const auto& [name, sum] : checksums.items()) {
    if (name == "result.json") continue;  // is not a checksum of the file's bytes
    if (name == model_file && !with_model) continue;
    if (is_beside_record(name) && !fs::exists(directory / name)) continue;
    require(fs::exists(directory / name), "{}: the file is missing; result.json has its checksum",
            (directory / name).string());
    const std::string now = file_checksum(directory / name);
    require(now == sum, "{}: damaged: its checksum is {}, result.json has {}", (directory / name).string(), now,
            sum.get<std::string>());
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The processor's name, from Linux: "Intel(R) Xeon(R) ...".
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "unknown";
}

}  // namespace

const std::vector<TextScore>& TestResult::scores() const {
  if (!known_scores)
    known_scores = std::make_shared<const std::vector<TextScore>>(scores_of(examples, metrics, options));
  return *known_scores;
}

std::string TestResult::key() const {
  if (!known_key.empty()) return known_key;
  std::uint64_t hash = stable_hash(set);
  for (const TestedExample& example : examples)
    hash = hash * 31 + stable_hash(example.reference + "\n" + example.input);
  return fmt::format("{} {} {:016x}", set, examples.size(), hash);
}

std::vector<std::size_t> TestResult::lengths() const {
  if (!known_key.empty()) return known_lengths;
  std::vector<std::size_t> lengths;
  for (const TestedExample& example : examples)
    lengths.push_back(split_words(example.input.empty() ? example.reference : example.input).size());
  return lengths;
}

Json to_json(const RunResult& result) {
  Json json = {{"row", result.row}, {"seed", result.seed}, {"parameters", result.parameters}};
  if (!result.trial.empty()) json["trial"] = result.trial;
  if (result.number > 0) json["number"] = result.number;
  if (!result.failure.empty()) json["failure"] = result.failure;
  if (result.training) json["training"] = to_json(*result.training);
  if (const double gain = gain_of_last_fifth(result); !std::isnan(gain)) json["training"]["gain_of_last_fifth"] = gain;
  json["tests"] = Json::object();
  for (const TestResult& test : result.tests) json["tests"][test.set] = to_json(test);
  return json;
}

RunResult result_of(const Json& json, const std::function<void(TestResult&)>& read_examples) {
  RunResult result{.row = json.at("row"),
                   .trial = json.value("trial", ""),
                   .seed = json.at("seed"),
                   .number = json.value("number", std::size_t{0}),
                   .parameters = json.at("parameters"),
                   .failure = json.value("failure", "")};
  if (json.contains("training")) result.training = training_of(json.at("training"));
  for (const auto& [set, test] : json.at("tests").items()) read_examples(result.tests.emplace_back(test_of(set, test)));
  return result;
}

void save_result(const RunResult& result) {
  Json json = to_json(result);
  json["checksums"] = Json::object();
  std::vector<std::string> files;
  for (const TestResult& test : result.tests) {
    files.push_back(examples_file(test.set));
    save_examples(result.directory / files.back(), test.examples);
  }
  files.insert(files.end(), {"log.jsonl", "pictures.json"});
  std::set<std::string> beside;
  for (const auto& entry : fs::directory_iterator(result.directory))
    if (const std::string name = entry.path().filename(); is_beside_record(name)) beside.insert(name);
  files.insert(files.end(), beside.begin(), beside.end());
  for (const std::string& name : files)
    if (fs::exists(result.directory / name)) json["checksums"][name] = file_checksum(result.directory / name);
  json["configuration"] = result.configuration;
  json["goal"] = result.goal;
  json["checksums"]["result.json"] = result_checksum(json);
  save_json(result.directory / "result.json", json);
}

std::optional<RunResult> load_result(const fs::path& directory, bool with_model) {
  const fs::path path = directory / "result.json";
  if (!fs::exists(path)) return {};
  const Json json = load_json(path);
  RunResult result;
  reading_json(path.string(), [&] {
    require_undamaged(directory, json.at("checksums"), with_model);
    result =
        result_of(json, [&](TestResult& test) { test.examples = load_examples(directory / examples_file(test.set)); });
    result.directory = directory;
    result.configuration = json.at("configuration");
    result.goal = json.value("goal", Json());
    const std::string rows = result.configuration.is_object() ? result.configuration.value("made-for", "") : "";
    for (const std::string_view row : split_columns(rows, ';'))
      if (!trimmed(row).empty()) result.made_for.push_back(trimmed(row));
    const std::string sum = json.at("checksums").at("result.json"), now = result_checksum(json);
    require(now == sum, "{}: damaged: its checksum is {}, it has {}", path.string(), now, sum);
  });
  return result;
}

std::vector<Json> starts_of(const RunResult& run) {
  std::vector<Json> starts = run.starts;
  for (const fs::path& directory : {run.directory.parent_path(), run.directory}) {
    if (!fs::exists(directory / "run.json")) continue;
    try {
      const Json all = load_json(directory / "run.json");
      for (const Json& start : all.is_array() ? all : Json::array())
        if (start.is_object()) starts.push_back(start);
    } catch (const Error&) {
      // a damaged list of starts must not keep the results from being reported
    }
  }
  return starts;
}

std::vector<Json> log_of(const RunResult& run) {
  const fs::path file = run.directory / "log.jsonl";
  return run.log.empty() && fs::exists(file) ? read_log(file) : run.log;
}

double gain_of_last_fifth(const RunResult& run) {
  double before = std::nan(""), last = before;
  if (!run.training) return last;
  for (const Json& line : log_of(run)) {
    if (!line.contains("dev")) continue;
    const Json score = line["dev"].value(run.training->score_name, Json());
    if (!score.is_number()) continue;
    last = score;
    if (5 * line.at("update").get<std::int64_t>() <= 4 * run.training->updates) before = last;
  }
  return run.training->higher_is_better ? last - before : before - last;
}

Json start_entry(const std::string& command, Device device) {
  Json start{{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
             {"command", command},
             {"directory", fs::current_path().string()},
             {"version", version_text},
             {"commit", commit_text},
             {"machine", host_name()},
             {"processor", processor_name()},
             {"threads", omp_get_max_threads()}};
  if (device != Device::cpu) start["gpu"] = kernels(device).describe();
  return start;
}

Json start_without_places(const Json& start) {
  Json kept;
  for (const char* key : {"started", "version", "commit", "processor", "threads", "gpu"})
    if (start.contains(key)) kept[key] = start.at(key);
  return kept;
}

void save_start(const fs::path& directory, const std::string& command, Device device) {
  const fs::path path = directory / "run.json";
  Json starts = fs::exists(path) ? load_json(path) : Json::array();
  require(starts.is_array(), "{}: not what a run writes: expected a list, found {}", path.string(), starts.type_name());
  starts.push_back(start_entry(command, device));
  save_json(path, starts);
}

namespace {

TextScore likelihood_score(const std::string& name, const std::vector<TestedExample>& examples,
                           std::int64_t Likelihood::*count, double (*of_mean)(double) = std::exp) {
  std::vector<Likelihood> likelihoods;
  for (const TestedExample& example : examples) likelihoods.push_back(example.likelihood);
  return {.name = name, .metric = likelihood_metric(likelihoods, count, of_mean), .decimals = 3};
}

double in_bits(double nats) { return nats / std::log(2.0); }

}  // namespace

std::vector<TextScore> scores_of(const std::vector<TestedExample>& examples, const std::vector<std::string>& metrics,
                                 const TextMetricOptions& options) {
  TextFile hypotheses{"hypotheses", {}};
  std::size_t more = 0;
  bool has_words = false;
  for (const TestedExample& example : examples) {
    hypotheses.lines.push_back(example.hypothesis);
    more = std::max(more, example.more_references.size());
    has_words = has_words || example.likelihood.words > 0;
  }
  std::vector<TextFile> references(1 + more, {"references", {}});
  for (const TestedExample& example : examples)  // where there are fewer, the first one stands for the others
    for (std::size_t k = 0; k <= more; ++k)
      references[k].lines.push_back(k == 0 || k > example.more_references.size() ? example.reference
                                                                                 : example.more_references[k - 1]);
  std::vector<TextScore> scores;
  for (const std::string& metric : metrics) {
    if (metric == "perplexity") {
      scores.push_back(likelihood_score("perplexity", examples, &Likelihood::tokens));
    } else if (metric == "word-perplexity") {
      if (has_words) scores.push_back(likelihood_score("per word", examples, &Likelihood::words));
    } else if (metric == "bits-per-character") {
      if (has_words) scores.push_back(likelihood_score("bits/char", examples, &Likelihood::characters, in_bits));
    } else {
      for (TextScore& score : text_scores(metric, hypotheses, references, options)) scores.push_back(std::move(score));
    }
  }
  return scores;
}

}  // namespace fovea
