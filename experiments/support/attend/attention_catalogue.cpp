#include "experiments/support/attend/attention_catalogue.h"

#include <algorithm>
#include <map>
#include <set>

#include "attention/engine/tiles.h"
#include "attention/language/formula_text.h"
#include "attention/registry.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_view.h"
#include "experiments/support/text/words.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

/// More keys than a segment of a window may have on a GPU.
constexpr int trial_sentences = 2, trial_queries = 17, trial_keys = 19;

/// One call of an attention in one place, with random inputs: its tensors, or why it is not defined there.
struct AttentionTrial {
  CaseTensors tensors;
  std::string failure;
};

AttentionTrial tried(const std::string& method, const AttentionShape& shape, Place place,
                     AttentionEngine engine = AttentionEngine::composed) {
  const NoWarnings quiet;
  const int keys = place == Place::cross ? trial_keys : trial_queries;
  AttentionCase options{.method = method, .heads = shape.heads, .place = place, .engine = engine, .weights = true};
  options.shape = {trial_sentences, trial_queries, keys, int(shape.model_dim)};
  Safetensors given;
  for (const ReadInput& input : inputs_of(method))
    if (input.name == "mask") given.tensors.emplace_back("mask", Tensor::full({1, 1, trial_queries, keys}, 0.5));
  try {
    return {attend_case(options, given), ""};
  } catch (const Error& error) {
    const std::string text = error.what(), behind = "': ";
    const std::size_t subject = text.find(behind);
    return {{}, subject == std::string::npos ? text : text.substr(subject + behind.size())};
  }
}

/// The part of the attention that has no form for the fused engine, such as "a term of whole rows", from the error that
/// attend() throws then; empty for an empty error.
std::string part_of(const std::string& error) {
  const std::string before = "attention: ";
  const std::size_t at = error.find(before), begin = at == std::string::npos ? 0 : at + before.size();
  return error.substr(begin, error.find(" has no form") - begin);
}

/// The places and engines that support an attention.
struct Usage {
  std::vector<std::string> places;
  std::map<std::string, std::vector<std::string>> failures;  ///< the places where it is not defined, by the reason
  CaseTensors tensors;        ///< of a call, in cross-attention if possible; empty if it is defined nowhere
  std::string no_fused_form;  ///< the part that the fused engine cannot compute on the CPU; empty: it can
  std::string no_gpu_form;    ///< the same of a GPU
};

Usage usage_of(const std::string& method, const AttentionShape& shape) {
  Usage use;
  for (Place place : {Place::encoder, Place::decoder, Place::cross}) {
    CollectedTileCalls collected;
    AttentionTrial trial = tried(method, shape, place);
    if (!trial.failure.empty()) {
      use.failures[trial.failure].emplace_back(name_of(place));
      continue;
    }
    use.places.emplace_back(name_of(place));
    use.tensors = std::move(trial.tensors);
    for (const TileCalls& calls : collected.of_attend) {
      if (calls.missing) use.no_gpu_form = calls.missing;
      for (const TileCall& call : calls.calls)
        if (attention_kernels().missing)
          if (const char* missing = attention_kernels().missing(call)) use.no_gpu_form = missing;
    }
    const std::string part = part_of(tried(method, shape, place, AttentionEngine::fused).failure);
    if (!part.empty()) use.no_fused_form = part;
  }
  return use;
}

/// Whether the fused engine computes an attention, or why not.
std::string fused_text(const Usage& use) {
  if (use.no_fused_form == use.no_gpu_form) return use.no_gpu_form.empty() ? "yes" : "no: " + use.no_gpu_form;
  if (use.no_gpu_form.empty()) return "on a GPU; not on a CPU: " + use.no_fused_form;
  if (use.no_fused_form.empty()) return "on a CPU; not on a GPU: " + use.no_gpu_form;
  return fmt::format("not on a CPU: {}; not on a GPU: {}", use.no_fused_form, use.no_gpu_form);
}

/// The specification itself, or a simple example if it is only the name of a combination.
std::string completed(const std::string& method) {
  if (method == "classic") return "classic(dot)";
  if (method == "multi_head") return "multi_head(global)";
  if (method == formula_word) return method + "(\"z - exp(slope) * abs(j - i)\", slope=head)";
  return find_combination(method) ? method + "(dot*2)" : method;
}

// ---- Sections of a description

std::string card_text(const MethodCard& card, const std::vector<OptionDescription>& rows) {
  std::string formula = card.formula;
  for (std::size_t at = 0; (at = formula.find('\n', at)) != std::string::npos; at += 3) formula.replace(at, 1, "\n  ");
  std::string text = fmt::format("{}: {} ({})\n  {}\n", card.name, card.summary, card.reference, formula);
  Table options({"option", "default", "values", "meaning"});
  for (const OptionDescription& row : rows) options.row({row.name, row.default_value, row.values, row.meaning});
  return rows.empty() ? text : text + options.text();
}
template <class Entry>
std::string card_text(const Entry& entry) {
  return card_text(entry.card, describe_options(entry));
}

struct InputDescription {
  const char *name, *shape, *meaning;
};
constexpr InputDescription inputs_of_all[] = {
    {"query", "[B, I, d_q]", ""},
    {"key", "[B, J, d_k]", "without it: self-attention"},
    {"value", "[B, J, d_v]", "without it: the keys"},
    {"lengths", "[B]", "number of real keys of each sentence; the rest is padding"},
    {"allowed", "[B or 1, H or 1, I or 1, J]", "bool or u8; false where a query must not see a key"},
    {"documents", "[B, J]", "in self-attention: number of each token's document, if a row has several"},
    {"query_offset", "[1]", "position of the first query"}};
constexpr InputDescription inputs_of_some[] = {
    {"mask", "[B or 1, H or 1, I or 1, J]", "numbers in [0, 1]; needed"},
    {"left_pointer", "[B or 1, H or 1, I or 1] or [..., J]", "positions of keys, or distributions over the keys"},
    {"right_pointer", "[B or 1, H or 1, I or 1] or [..., J]", "the same"},
    {"grid", "[J, 2] or [B or 1, J, 2]", "row and column of each token"},
    {"step_input", "[B, I, d_e]", "the decoder's input at each step; with it, parameters have other shapes"},
    {"previous_focus", "[B] or [B, H]", "the focus before the first query; needed if query_offset is above 0"}};

std::string inputs_text(const std::string& method) {
  Table table({"input", "shape", ""});
  for (const auto& [name, shape, meaning] : inputs_of_all) table.row({name, shape, meaning});
  for (const auto& [name, shape, meaning] : inputs_of_some)
    for (const ReadInput& read : inputs_of(method))
      if (read.name == name) table.row({name, shape, meaning + (read.always ? "" : "; with " + read.with)});
  return table.text();
}

/// The parameters and results of a call. Of many the middle ones are left out: a specification may combine a thousand
/// mechanisms with parameters of their own.
std::string tensors_text(const std::string& method, const AttentionShape& shape, bool is_cross,
                         const CaseTensors& tensors) {
  constexpr std::ptrdiff_t most = 40, last = 10;
  std::vector<std::vector<Cell>> parameters, results;
  for (const auto& [name, tensor] : tensors) {
    if (name == "mask" || std::ranges::count(common_inputs, name) > 0) continue;
    const bool is_result = !results.empty() || name == "output";
    (is_result ? results : parameters).push_back({name, tensor.shape().str(), is_result ? "result" : "parameter"});
  }
  Table table({"tensor", "shape", ""});
  for (auto* rows : {&parameters, &results})
    for (std::ptrdiff_t k = 0; k < std::ssize(*rows); ++k) {
      const std::ptrdiff_t left_out = std::ssize(*rows) - most;
      if (left_out > 1 && k == most - last) table.row({fmt::format("... {} more", left_out), "", ""}), k += left_out;
      table.row((*rows)[std::size_t(k)]);
    }
  return fmt::format(
      "Parameters and results of {} with {} sentences, {} queries, {}, width {} and {} (--shape, --heads); "
      "the weights need --weights:\n{}",
      shortened(method, 60), trial_sentences, trial_queries,
      is_cross ? fmt::format("{} other keys", trial_keys) : "which are the keys too", shape.model_dim,
      counted(std::size_t(shape.heads), "head"), table.text());
}

}  // namespace

std::string attention_catalogue() {
  std::string text =
      "Methods are combined with '+'. Each also takes layers=FIRST-LAST and heads=FIRST-LAST, counted from 1.\n"
      "heads(global*2, gaussian*2) assigns different methods to different heads.\n";
  for (const MethodEntry& entry : registered_methods()) text += "\n" + card_text(entry);
  text += "\n" + card_text(formula_card, {});
  text +=
      "\nA sum alone is multi-head attention with projections. Attention without projections, and combinations of\n"
      "several attentions: classic(additive), average(dot*2, laplace), average(multi_head(global), "
      "multi_head(gaussian))\n";
  for (const Combination& entry : combinations()) text += "\n" + card_text(entry);
  return text;
}

Table attention_table() {
  Table table({"name", "what it does", "paper", "where", "fused engine"});
  auto add = [&](const MethodCard& card) {
    const Usage use = usage_of(completed(card.name), {.model_dim = 8, .heads = 2});
    table.row({card.name, card.summary, card.reference, listed(use.places, ", "), fused_text(use)});
  };
  for (const MethodEntry& entry : registered_methods()) add(entry.card);
  add(formula_card);
  table.rule();
  for (const Combination& entry : combinations()) add(entry.card);
  return table;
}

std::string describe_attention(const std::string& specification, const AttentionShape& shape) {
  const std::string method = completed(specification);
  attention_factory(method);  // throws Error if the specification has a mistake
  std::string text;
  std::set<std::string> seen;
  const std::vector<MethodText> sum = parse_specification(method);
  for (const MethodText* part : all_methods(sum)) {
    if (part->name == formula_word) {
      MethodCard own = formula_card;
      for (const OptionText& option : part->options)
        if (option.name == "formula") own.formula = option.value.c_str();
      text += card_text(own, {}) + "\n";
    }
    if (!seen.insert(part->name).second) continue;
    if (const Combination* combination = find_combination(part->name)) text += card_text(*combination) + "\n";
    if (const MethodEntry* entry = find_method(part->name)) text += card_text(*entry) + "\n";
  }
  const Usage use = usage_of(method, shape);
  text += fmt::format("where: {}\n", use.places.empty() ? "nowhere" : listed(use.places, ", "));
  for (const auto& [failure, places] : use.failures)
    text += fmt::format("  not {}: {}\n", listed(places, ", "), without_middle(failure, 200));
  if (use.places.empty()) {
    const bool needs_heads = shape.heads == 1 && !usage_of(method, {.model_dim = 64, .heads = 8}).places.empty();
    return text + (needs_heads ? "It is defined with more heads, such as --heads 8.\n" : "");
  }
  text += fmt::format("engines: {}blockwise, composed\n",
                      use.no_fused_form.empty() || use.no_gpu_form.empty() ? "fused, " : "");
  if (!use.no_fused_form.empty()) text += fmt::format("  not fused on a CPU: {}\n", use.no_fused_form);
  if (!use.no_gpu_form.empty()) text += fmt::format("  not fused on a GPU: {}\n", use.no_gpu_form);
  return text + "\n" + inputs_text(method) + "\n" +
         tensors_text(method, shape, use.places.back() == name_of(Place::cross), use.tensors);
}

}  // namespace fovea
