#include "experiments/support/training/record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <set>

#include <fmt/chrono.h>
#include <omp.h>
#include <unistd.h>
#include <zlib.h>

#include "experiments/support/data/split_mix.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/text/number.h"
#include "experiments/support/training/reduced_record.h"
#include "experiments/version.h"
#include "tensor/error.h"
#include "tensor/kernels.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

std::string examples_file(const std::string& set) { return "examples." + file_name_for(set) + ".jsonl"; }
std::string statistics_file(const std::string& set) { return "statistics." + file_name_for(set) + ".jsonl.gz"; }

/// The CRC-32 of the content of result.json without this checksum itself.
std::string checksum_of(Json result) {
  result["checksums"].erase("result.json");
  const std::string text = text_of(result);
  return fmt::format("{:08x}", ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

Json to_json(const TestedExample& example) {
  Json json;
  if (!example.input.empty()) json["input"] = example.input;
  json["reference"] = example.reference;
  if (!example.more_references.empty()) json["more_references"] = example.more_references;
  if (!example.hypothesis.empty()) json["hypothesis"] = example.hypothesis;
  const Likelihood& likelihood = example.likelihood;
  if (likelihood.tokens > 0) {
    json["negative_log_likelihood"] = likelihood.negative_log;
    json["tokens"] = likelihood.tokens;
  }
  if (likelihood.words > 0) json.update({{"words", likelihood.words}, {"characters", likelihood.characters}});
  if (example.group >= 0) json["group"] = example.group;
  if (!example.probabilities.empty()) json["probabilities"] = example.probabilities;
  return json;
}

/// JSON has no NaN and no infinity; they are saved as null.
double number_of(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

TestedExample example_of(const Json& json) {
  std::vector<double> probabilities;
  for (const Json& probability : json.value("probabilities", Json::array()))
    probabilities.push_back(number_of(probability));
  return {.input = json.value("input", ""),
          .reference = json.at("reference"),
          .hypothesis = json.value("hypothesis", ""),
          .more_references = json.value("more_references", std::vector<std::string>()),
          .likelihood = {.negative_log = number_of(json.value("negative_log_likelihood", Json(0.0))),
                         .tokens = json.value("tokens", std::int64_t{0}),
                         .words = json.value("words", std::int64_t{0}),
                         .characters = json.value("characters", std::int64_t{0})},
          .group = json.value("group", -1),
          .probabilities = std::move(probabilities)};
}

void save_examples(const fs::path& path, const std::vector<TestedExample>& examples) {
  AtomicFile file(path);
  for (const TestedExample& example : examples) file.write(text_of(to_json(example)) + "\n");
  file.commit();
}

std::vector<TestedExample> load_examples(const fs::path& path) {
  std::vector<TestedExample> examples;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    reading_json(fmt::format("{}:{}", path.string(), examples.size() + 1),
                 [&] { examples.push_back(example_of(parse_json(line))); });
  return examples;
}

Json to_json(const TrainingResult& training) {
  return {{"updates", training.updates},
          {"best_update", training.best_update},
          {"selected_by", training.score_name},
          {"higher_is_better", training.higher_is_better},
          {"best_score", training.best_score},
          {"update_seconds", training.seconds},
          {"update_cpu_seconds", training.update_cpu_seconds},
          {"steps_per_second", training.steps_per_second()},
          {"wall_seconds", training.wall_seconds},
          {"cpu_seconds", training.cpu_seconds},
          {"threads", omp_get_max_threads()}};
}

TrainingResult training_of(const Json& json) {
  return {.updates = json.at("updates"),
          .best_update = json.at("best_update"),
          .score_name = json.at("selected_by"),
          .best_score = json.at("best_score"),
          .higher_is_better = json.at("higher_is_better"),
          .seconds = json.at("update_seconds"),
          .update_cpu_seconds = number_of(json.value("update_cpu_seconds", Json())),  // null: by an older version
          .wall_seconds = json.at("wall_seconds"),
          .cpu_seconds = json.at("cpu_seconds")};
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

TestResult test_of(const std::string& set, const Json& json, const fs::path& directory) {
  TestResult test{.set = set, .metrics = json.at("metrics")};
  test.options.tokenization = tokenization_of(json.at("tokenize").get<std::string>());
  if (fs::exists(directory / statistics_file(set)))
    load_statistics(test, directory / statistics_file(set));
  else
    test.examples = load_examples(directory / examples_file(set));
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

std::string file_checksum(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be read", path.string());
  uLong sum = ::crc32(0, nullptr, 0);
  std::array<char, 1 << 16> bytes;
  while (file.read(bytes.data(), bytes.size()), file.gcount() > 0)
    sum = ::crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(file.gcount()));
  return fmt::format("{:08x}", sum);
}

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

Json to_json(const RunResult& result) {
  Json json = {{"row", result.row}, {"seed", result.seed}, {"parameters", result.parameters}};
  if (!result.trial.empty()) json["trial"] = result.trial;
  if (result.number > 0) json["number"] = result.number;
  if (!result.failure.empty()) json["failure"] = result.failure;
  if (result.training) json["training"] = to_json(*result.training);
  json["tests"] = Json::object();
  for (const TestResult& test : result.tests) json["tests"][test.set] = to_json(test);
  return json;
}

void save_result(const RunResult& result, RecordForm form) {
  Json json = to_json(result);
  json["checksums"] = Json::object();
  auto add_checksum = [&](const std::string& name) {
    if (fs::exists(result.directory / name)) json["checksums"][name] = file_checksum(result.directory / name);
  };
  for (const TestResult& test : result.tests) {
    const bool is_reduced = form == RecordForm::reduced;
    const std::string name = is_reduced ? statistics_file(test.set) : examples_file(test.set);
    if (is_reduced)
      save_statistics(test, result.directory / name);
    else
      save_examples(result.directory / name, test.examples);
    add_checksum(name);
  }
  for (const char* name : {"log.jsonl", "pictures.json"}) add_checksum(name);
  std::set<std::string> beside;
  if (form == RecordForm::full)
    for (const auto& entry : fs::directory_iterator(result.directory))
      if (const std::string name = entry.path().filename(); is_beside_record(name)) beside.insert(name);
  for (const std::string& name : beside) add_checksum(name);
  json["configuration"] = result.configuration;
  json["goal"] = result.goal;
  json["checksums"]["result.json"] = checksum_of(json);
  save_json(result.directory / "result.json", json);
}

std::optional<RunResult> load_result(const fs::path& directory, bool with_model) {
  const fs::path path = directory / "result.json";
  if (!fs::exists(path)) return {};
  const Json json = load_json(path);
  RunResult result;
  reading_json(path.string(), [&] {
    require_undamaged(directory, json.at("checksums"), with_model);
    result = {.row = json.at("row"),
              .trial = json.value("trial", ""),
              .seed = json.at("seed"),
              .number = json.value("number", std::size_t{0}),
              .directory = directory,
              .parameters = json.at("parameters"),
              .configuration = json.at("configuration"),
              .goal = json.value("goal", Json()),
              .failure = json.value("failure", "")};
    if (json.contains("training")) result.training = training_of(json.at("training"));
    for (const auto& [set, test] : json.at("tests").items()) result.tests.push_back(test_of(set, test, directory));
    const std::string sum = json.at("checksums").at("result.json"), now = checksum_of(json);
    require(now == sum, "{}: damaged: its checksum is {}, it has {}", path.string(), now, sum);
  });
  return result;
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

/// A metric of the examples' likelihoods: of_sums(Σ negative logarithms, Σ counts).
TextScore likelihood_score(const std::string& name, const std::vector<TestedExample>& examples,
                           std::int64_t Likelihood::*count, double (*of_sums)(double, double)) {
  SummedMetric metric{
      .width = 2, .of_sums = [of_sums](auto sums) { return of_sums(sums[0], sums[1]); }, .higher_is_better = false};
  for (const TestedExample& example : examples) {
    const double counted = static_cast<double>(example.likelihood.*count);
    metric.statistics.insert(metric.statistics.end(), {example.likelihood.negative_log, counted});
  }
  return {.name = name, .metric = std::move(metric), .decimals = 3};
}

double perplexity(double negative_log, double count) { return std::exp(negative_log / count); }
double bits(double negative_log, double count) { return negative_log / count / std::log(2.0); }

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
      scores.push_back(likelihood_score("perplexity", examples, &Likelihood::tokens, perplexity));
    } else if (metric == "word-perplexity") {
      if (has_words) scores.push_back(likelihood_score("per word", examples, &Likelihood::words, perplexity));
    } else if (metric == "bits-per-character") {
      if (has_words) scores.push_back(likelihood_score("bits/char", examples, &Likelihood::characters, bits));
    } else {
      for (TextScore& score : text_scores(metric, hypotheses, references, options)) scores.push_back(std::move(score));
    }
  }
  return scores;
}

}  // namespace fovea
