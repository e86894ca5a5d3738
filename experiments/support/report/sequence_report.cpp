#include "experiments/support/report/sequence_report.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>

#include "autograd/operations.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/learning_curves.h"
#include "experiments/support/report/paper_numbers.h"
#include "experiments/support/report/score_report.h"
#include "experiments/support/text/lines.h"

namespace fovea {

namespace {

void add_scores(Report& report, const std::vector<ReportedModel>& models) {
  std::vector<std::string> titles;
  std::vector<std::vector<TextScore>> scores;
  for (const ReportedModel& model : models) {
    if (model.scores.empty() || model.scores.front().empty()) return;
    titles.push_back(model.title);
    scores.push_back(model.scores.front());
  }
  report.add(
      table_of(score_rows(titles, scores, {})),
      fmt::format("Each metric{}, with a bootstrap of 1000 resamples of the test texts. p (Koehn): one-sided, how "
                  "often a resample is not better than the first row's; p (Moses): two-sided, as sacreBLEU has "
                  "it. ↑: p (Koehn) < .05, ⇑: < .01.",
                  models.front().runs.size() > 1 ? " of the first seeds" : ""));
}

/// The mean over the runs of the first score whose name begins so; NaN where there is none.
double our_score(const ReportedModel& model, const std::string& metric) {
  std::vector<double> values;
  for (const std::vector<TextScore>& run : model.scores)
    for (const TextScore& score : run)
      if (score.name.starts_with(metric)) {
        values.push_back(score.metric.value());
        break;
      }
  return mean(values);
}

void add_papers(Report& report, const ReportedSequences& reported) {
  std::vector<Json> configurations;
  for (const ReportedModel& model : reported.models)
    configurations.push_back(load_json(model.runs.front() / "config.json"));
  const std::vector<PaperTable> papers = paper_tables(reported.program, configurations);
  if (papers.empty()) return;
  report.section("Beside the papers");
  report.text(
      "What the papers report of models with these attentions. Their data, sizes and training are others: what may be "
      "compared is the order of the rows and the distances between them, not the values.");
  auto cell = [](double value) { return Cell::number(value, value < 1 ? 3 : 2); };
  for (const PaperTable& paper : papers) {
    std::vector<std::string> headings{"the paper's name", "model", "ours: " + paper.metric};
    for (const std::string& column : paper.columns) headings.push_back("paper: " + column);
    Table table(headings);
    for (std::size_t m = 0; m < paper.rows.size(); ++m) {
      if (!paper.rows[m]) continue;
      std::vector<Cell> cells{paper.rows[m]->name, reported.models[m].title,
                              cell(our_score(reported.models[m], paper.metric))};
      for (double value : paper.rows[m]->values) cells.push_back(cell(value));
      table.row(std::move(cells));
    }
    report.add(table, paper.caption);
  }
}

std::string text_of(const TokenStore& store, std::size_t k, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(store.lengths()[k]));
  store.read(k, tokens);
  return tokenizer.decode(tokens);
}

/// Sources, references and what each model makes of them, at even distances through the test part.
void add_examples(Report& report, const ReportedSequences& reported) {
  constexpr std::size_t most = 6, longest = 600;
  std::vector<std::vector<std::string>> hypotheses;
  for (const ReportedModel& model : reported.models) {
    const std::filesystem::path file = model.runs[model.best] / "hypotheses.txt";
    if (!std::filesystem::exists(file)) return;
    hypotheses.push_back(read_lines(file.string()).lines);
  }
  const std::vector<TextPair>& pairs = reported.data.test_texts;
  const std::size_t count = std::min(most, pairs.size());
  Table table({"", "text"});
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t k = n * pairs.size() / count;
    if (n > 0) table.rule();
    table.row({fmt::format("source, line {}", k + 1), shortened(pairs[k].source, longest)});
    table.row({"reference", shortened(pairs[k].target, longest)});
    for (std::size_t m = 0; m < hypotheses.size(); ++m)
      table.row({reported.models[m].title, shortened(hypotheses[m].at(k), longest)});
  }
  report.section("Examples")
      .add(table,
           "Test texts at even distances, and what the best run of each model makes of "
           "them; all are in hypotheses.txt and references.txt of the runs.");
}

/// One pair of the test part as the model reads it, and its tokens as words.
struct ShownPair {
  SequenceBatch batch;
  std::string text;
  std::vector<std::string> source, input, output;
};

std::vector<std::string> words_of(const std::vector<std::int32_t>& tokens, const Tokenizer& tokenizer) {
  std::vector<std::string> words;
  for (std::int32_t token : tokens) words.push_back(tokenizer.token(token));
  return words;
}

ShownPair shown_pair(const SequenceData& data, std::size_t k, bool has_source) {
  BatchOptions alone;
  alone.length_multiple = 1;
  PairBatch pair = fill({data.test.lengths[k], {static_cast<std::int64_t>(k)}}, data.test, alone);
  ShownPair shown;
  shown.text = text_of(data.test.target, k, *data.tokenizers.target);
  if (has_source) {
    shown.batch.source = Tensor::from(pair.source, {1, pair.source_length});
    shown.batch.source_lengths = Tensor::from(pair.source_lengths, {1});
    shown.source = words_of(pair.source, *data.tokenizers.source);
    shown.text = text_of(data.test.source, k, *data.tokenizers.source) + " → " + shown.text;
  }
  shown.batch.input = Tensor::from(pair.target_in, {1, pair.target_length});
  shown.batch.lengths = Tensor::from(pair.target_lengths, {1});
  shown.input = words_of(pair.target_in, *data.tokenizers.target);
  shown.output = words_of(pair.target_out, *data.tokenizers.target);
  return shown;
}

/// The first ones that fit a map, of different texts.
std::vector<ShownPair> pairs_to_show(const SequenceData& data, std::size_t count, bool has_source) {
  std::vector<std::size_t> order(data.test.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return misfit_of_map(data.test.lengths[a]) < misfit_of_map(data.test.lengths[b]);
  });
  std::vector<ShownPair> shown;
  std::set<std::string> texts;
  for (std::size_t k : order) {
    if (shown.size() == count) break;
    ShownPair pair = shown_pair(data, k, has_source);
    if (texts.insert(pair.text).second) shown.push_back(std::move(pair));
  }
  return shown;
}

/// ", layer 2" of "1.cross"; "" of an attention that is alone.
std::string layer_of(const AttentionTrace& trace) {
  int layer = 0;
  const char* end = trace.name.data() + trace.name.size();
  if (std::from_chars(trace.name.data(), end, layer).ec != std::errc()) return "";
  return fmt::format(", layer {}", layer + 1);
}

/// The first attention whose method says something of itself; where none does, the first one, or of those over the
/// source the last, which is nearest to the words.
const AttentionTrace* telling(const std::vector<const AttentionTrace*>& traces, bool over_source) {
  if (traces.empty()) return nullptr;
  auto first = std::find_if(traces.begin(), traces.end(), [](auto* trace) { return !trace->quantities.empty(); });
  return first != traces.end() ? *first : over_source ? traces.back() : traces.front();
}

void append(SentencePictures& all, SentencePictures more) {
  std::move(more.maps.begin(), more.maps.end(), std::back_inserter(all.maps));
  std::move(more.curves.begin(), more.curves.end(), std::back_inserter(all.curves));
}

/// One attention of each kind that the model has.
SentencePictures pictures_of(SequenceModel& model, const ShownPair& pair) {
  NoGrad off;
  SequenceTrace trace;
  model.logits(pair.batch, &trace);
  std::vector<const AttentionTrace*> encoder, decoder, over_source;
  for (const AttentionTrace& each : trace.encoder) encoder.push_back(&each);
  for (const AttentionTrace& each : trace.decoder) {
    // "2.cross", or the one of a recurrent model
    bool is_over_source = each.name == "attention" || each.name.find(".cross") != std::string::npos;
    (is_over_source ? over_source : decoder).push_back(&each);
  }
  SentencePictures pictures;
  auto add = [&](const AttentionTrace* shown, const char* name, const auto& queries, const auto& keys) {
    if (shown) append(pictures, pictures_of(*shown, name + layer_of(*shown), queries, keys));
  };
  add(telling(over_source, true), "over the source", pair.output, pair.source);
  add(telling(encoder, false), "encoder", pair.source, pair.source);
  add(telling(decoder, false), "decoder", pair.input, pair.input);
  return pictures;
}

void add_attention(Report& report, const ReportedSequences& reported) {
  constexpr std::size_t pairs = 2, most_bytes = 600'000;
  std::vector<ShownPair> shown;
  std::vector<ModelPictures> models;
  for (const ReportedModel& each : reported.models) {
    ModelPictures pictures{each.title, "", {}};
    if (each.runs.size() > 1) pictures.note = fmt::format("The run {}.", each.runs[each.best].filename().string());
    std::unique_ptr<SequenceModel> model = each.load();
    model->train(false);
    if (shown.empty()) shown = pairs_to_show(reported.data, pairs, model->has_source());
    for (const ShownPair& pair : shown) {
      constexpr std::size_t longest = 300;
      pictures.sentences.push_back({shortened(pair.text, longest), pictures_of(*model, pair)});
    }
    models.push_back(std::move(pictures));
  }
  add_attention_section(
      report,
      "What the best run of each model looks at while it is given a test text and its reference: the weights of the "
      "values after masks and windows; rows are queries, columns keys. Over the source each row is the word that is "
      "about to be said, in the decoder the word that is read. Of each kind of attention the first layer whose method "
      "has something to show is seen, otherwise the first one, over the source the last. Below the weights is what a "
      "method computes on its way. Orange dots and bars are a Gaussian's centre and width, or the focus of flexible "
      "attention.",
      models, most_bytes);
}

}  // namespace

void write_report(const std::filesystem::path& path, const ReportedSequences& reported) {
  Report report(reported.program, reported.description);
  report.section("Test").add(reported.table);
  add_scores(report, reported.models);
  add_papers(report, reported);
  std::vector<CurveRuns> curves;
  for (const ReportedModel& model : reported.models) curves.push_back({model.title, model.runs});
  add_learning_curves(report, curves,
                      score_curves(curves, "dev_" + reported.dev_score, "Development set", {reported.dev_score}));
  add_examples(report, reported);
  add_attention(report, reported);
  report.section("Configuration").configuration(reported.configuration);
  report.write(path);
}

}  // namespace fovea
