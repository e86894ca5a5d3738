#include "cuda/attention/spec.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>

#include <fmt/format.h>

namespace fovea::cuda {

namespace {

/// About how many registers of a thread hold the sums of a kernel and what its formulas read, if its strips have so
/// many columns. The compiler computes the pairs of a strip at the same time.
int registers_held(const SpecOfCall& spec, int columns) {
  const BlockShape& block = spec.block;
  const Pass pass = spec.kernel.pass;
  int outputs = 0;  // columns of the results that a row has
  const bool is_backward = pass >= Pass::query_gradients;
  if ((pass == Pass::forward || pass == Pass::key_gradients) && spec.kernel.values) outputs += block.value_width;
  if (is_backward && spec.kernel.score && spec.has_product) outputs += block.width;
  if (is_backward) outputs += std::popcount(spec.kernel.sources) * block.width;
  const int strips = (is_backward ? 2 : 1) + block.sources + (is_backward ? 2 : 1) * spec.pointers, pairs = columns / 2;
  const auto of_row = [&](Index index) {
    return index == Index::head || index == (pass < Pass::key_gradients ? Index::query : Index::key);
  };
  int read = 0;  // numbers of two rows or, with their addresses, of each pair
  for (Index index : spec.indices)
    if (index < Index::product)
      read += of_row(index) ? 3 : block.stages != 2 ? 2 * pairs : is_backward ? pairs / 2 : pairs;
  const int steps = static_cast<int>(spec.logit.steps.size() + spec.weight.steps.size());
  // A query that always sees some keys has several ranges, with bounds for each row; weights summed by distance have
  // addresses, and sums of both ends.
  if (pass == Pass::forward && block.stages == 2)
    read += 16 * (static_cast<int>(spec.always) + spec.has_relative_values);
  return (outputs / 2 + strips * pairs + read + steps * columns / 64) * block.number_bytes / 4;
}

/// Halves tiles until they need at most so many registers and bytes of shared memory, if they can be that small.
void shrink_tiles(SpecOfCall& spec, int most_registers, int most_bytes) {
  BlockShape& block = spec.block;
  const Pass pass = spec.kernel.pass;
  // no tile of a kernel has more columns than another's block has keys
  const int least_warps = block.sources > 0 ? 2 : 1;
  while (registers_held(spec, block.columns) > most_registers && block.columns > 16) block.columns /= 2;
  while (shared_bytes(pass, block) > most_bytes && block.columns > 16) block.columns /= 2;
  while (shared_bytes(pass, block) > most_bytes && block.warps > least_warps) block.warps /= 2;
}

/// Chooses tiles as large as registers, by an estimate, and shared memory allow.
void choose_tiles(SpecOfCall& spec, int most_bytes) {
  BlockShape& block = spec.block;
  const Pass pass = spec.kernel.pass;
  block.warps = 4, block.columns = block.sources > 0 ? 32 : 64;
  // Two blocks share a multiprocessor and compute while the other loads. Where the next tile is copied ahead, a block
  // is busy without a second one, and may have more. The products of factors that are not rounded take more registers.
  if (block.stages == 1) return shrink_tiles(spec, spec.rounds ? 114 : 90, std::min(most_bytes, 96 << 10));
  const int most_registers = pass != Pass::key_gradients ? 157 : spec.has_dropout ? 181 : 185;
  if (pass == Pass::forward) {
    block.warps = 8, block.columns = 128;
    if (registers_held(spec, 128) <= most_registers && shared_bytes(pass, block) <= std::min(most_bytes, 180 << 10))
      return;
    block.warps = 4, block.columns = 64;
  }
  shrink_tiles(spec, most_registers, std::min(most_bytes, 112 << 10));
}

int round_up_to_16(std::int64_t n) { return static_cast<int>(std::max<std::int64_t>((n + 15) / 16 * 16, 16)); }

/// A member function of a Spec that returns a number or truth.
template <class T>
std::string fact(const char* name, T value) {
  return fmt::format("  static __device__ constexpr auto {}() {{ return {}; }}\n", name, value);
}

/// A member function of a Spec that returns value number k, of this type, and the type's 0 for other k.
template <class T>
std::string table(const char* name, const char* type, const std::vector<T>& values) {
  std::string all = fmt::format("  static __device__ constexpr {0} {1}(int k) {{\n    switch (k) {{\n", type, name);
  for (std::size_t k = 0; k < values.size(); ++k)
    all += fmt::format("      case {}: return {}({});\n", k, type, static_cast<int>(values[k]));
  return all + fmt::format("      default: return {}(0);\n    }}\n  }}\n", type);
}

}  // namespace

std::int64_t width_of(const LoweredCall& call) {
  if (call.queries.defined()) return call.queries.size(3);
  return call.sources.empty() ? 0 : call.sources[0].queries.size(3);
}

int most_shared_bytes(int architecture) {
  if (architecture == 80 || architecture == 87) return 163 << 10;
  return architecture < 90 || architecture >= 120 ? 99 << 10 : 227 << 10;
}

Side side_of(const LoweredSource& source) {
  using Kind = LoweredSource::Kind;
  return source.kind == Kind::pointer_up_to_query  ? Side::up_to_query
         : source.kind == Kind::pointer_from_query ? Side::from_query
                                                   : Side::all;
}

std::vector<Kernel> kernels_of(const TileCall& call, Pass pass) {
  if (pass <= Pass::forward) return {{pass}};
  const LoweredCall& lowered = call.lowered;
  const auto number_bytes = static_cast<std::int64_t>(size_of(lowered.values.dtype()));
  const bool rounds = call.products == Precision::bf16;
  const std::int64_t row = width_of(lowered) * number_bytes, most = lowered.sources.empty() ? 1024 : rounds ? 768 : 640;
  std::vector<Kernel> kernels{{pass, true, false, 0}};
  // In a call with a window, what the other tensors that formulas read (captures) take of the registers, counted like
  // the bytes of a row of gradients. One with a number for each distance takes the most, because the gradients of all
  // distances beyond its two ends are summed in registers.
  std::int64_t formula = 0;
  for (const LoweredCapture& capture : lowered.captures())
    if (!lowered.sources.empty() && !capture.is_of_source())
      formula += pass == Pass::query_gradients && rounds && capture.indexing == Indexing::query_offset ? 200 : 64;
  std::int64_t bytes = formula + (lowered.queries.defined() ? row : 0);  // of a row of the last kernel's gradients
  auto take = [&](std::int64_t more) -> Kernel& {
    if (bytes > formula && bytes + more > most) kernels.push_back({pass, false, false, 0}), bytes = formula;
    bytes += more;
    return kernels.back();
  };
  if (pass == Pass::key_gradients) take(lowered.values.size(3) * number_bytes).values = true;
  for (std::size_t s = 0; s < lowered.sources.size(); ++s) take(row).sources |= 1u << s;
  return kernels;
}

Kernel kernel_of_focus_gradients() { return {Pass::query_gradients, false, false, 0, true}; }

std::vector<Kernel> kernels_of(const TileCall& call) {
  std::vector<Kernel> all;
  auto add = [&](Pass pass) {
    for (const Kernel& kernel : kernels_of(call, pass)) all.push_back(kernel);
  };
  if (call.lowered.focus) add(Pass::focus);
  add(Pass::forward);
  if (call.lowered.focus) all.push_back(kernel_of_focus_gradients());
  add(Pass::query_gradients), add(Pass::key_gradients);
  return all;
}

namespace {

/// Whether a kernel makes the gradient of such a capture.
bool makes(const Kernel& kernel, const LoweredCapture& capture) {
  if (capture.indexing == Indexing::focus) return kernel.focus;
  return kernel.score || capture.is_of_source();
}

/// Says which numbers of the sources captures read, as BlockSources numbers them.
void add_sources(SpecOfCall& spec, const LoweredCall& lowered) {
  BlockShape& block = spec.block;
  block.sources = static_cast<int>(lowered.sources.size());
  block.segment = static_cast<int>(lowered.segment);
  for (const LoweredSource& source : lowered.sources) {
    spec.pointers += source.kind != LoweredSource::Kind::product;
    spec.sides.push_back(side_of(source));
  }
  for (const LoweredCapture& capture : lowered.captures()) {
    const int s = static_cast<int>(capture.source);
    spec.numbers_of_sources.push_back(capture.indexing == Indexing::product ? spec.pointers + s
                                      : capture.indexing == Indexing::from  ? 2 * s + 1
                                                                            : 2 * s);
  }
}

}  // namespace

SpecOfCall spec_of(const TileCall& call, const Kernel& kernel, int most_bytes) {
  const LoweredCall& lowered = call.lowered;
  SpecOfCall spec;
  spec.kernel = kernel;
  spec.number = lowered.values.dtype();
  spec.rounds = call.products == Precision::bf16 && spec.number == DType::f32;
  const std::vector<LoweredCapture> captures = lowered.captures();
  for (std::size_t k = 0; k < captures.size(); ++k) spec.wants.push_back(call.wants[k] && makes(kernel, captures[k]));
  spec.logits = static_cast<int>(lowered.logit.captures.size());
  for (const LoweredCapture& capture : captures) spec.indices.push_back(static_cast<Index>(capture.indexing));
  spec.has_product = lowered.queries.defined();
  spec.has_window = !lowered.window.parts.empty();
  spec.has_sink = lowered.sink.defined();
  spec.always = lowered.always.size(), spec.dilations = lowered.dilations.size(), spec.masks = lowered.masks.size();
  spec.has_dropout = call.dropout.probability > 0;
  spec.renormalizes = lowered.renormalizes;
  spec.has_densities = lowered.densities;
  spec.has_relative_values = lowered.relative.table.defined();
  spec.has_output = !call.only_totals;
  spec.has_focus = lowered.focus.has_value();
  spec.has_rows = call.traces_rows;
  spec.continues = lowered.extra.keys.defined() && kernel.pass == Pass::forward;
  spec.has_hidden = spec.block.hidden = lowered.hidden_weight.defined();
  spec.logit = lowered.logit.value(), spec.logit_gradients = lowered.logit.gradients();
  spec.weight = lowered.window.value(), spec.weight_gradients = lowered.window.gradients();
  BlockShape& block = spec.block;
  block.width = round_up_to_16(width_of(lowered));
  block.value_width = round_up_to_16(lowered.values.size(3));
  block.number_bytes = static_cast<int>(size_of(spec.number));
  block.factor_bytes = spec.rounds ? 2 : block.number_bytes;
  block.slots = 0;
  for (std::size_t k = 0; k < spec.wants.size(); ++k)
    if (spec.wants[k] && spec.indices[k] == Index::offset) ++block.slots;
  add_sources(spec, lowered);
  block.stages = spec.rounds && block.sources == 0 ? 2 : 1;
  choose_tiles(spec, most_bytes);
  return spec;
}

namespace {

std::vector<double> constants_of(const SpecOfCall& spec) {
  std::vector<double> all;
  for (const Expression* expression : {&spec.logit, &spec.logit_gradients, &spec.weight, &spec.weight_gradients})
    all.insert(all.end(), expression->constants.begin(), expression->constants.end());
  all.resize(std::max<std::size_t>(all.size(), 1));
  return all;
}

/// The member functions of a Spec but its formulas: what the kernels ask about the call, such as has_window(), and how
/// they look up captures by number. See pairs.cuh for what a Spec is.
std::string facts_of(const SpecOfCall& spec) {
  std::vector<int> slots(spec.indices.size());
  for (int k = 0, slot = 0; k < std::ssize(slots); ++k)
    if (spec.wants[k] && spec.indices[k] == Index::offset) slots[k] = slot++;
  std::string all = fact("captures", spec.indices.size()) + fact("logits", spec.logits);
  all += table("index", "cuda::Index", spec.indices) + table("wants", "bool", spec.wants);
  all += fact("slots", spec.block.slots) + table("slot", "int", slots);
  all += fact("sources", spec.block.sources) + fact("pointers", spec.pointers) + fact("segment", spec.block.segment);
  all += table("side", "cuda::Side", spec.sides);
  all += table("number_of_source", "int", spec.numbers_of_sources);
  all += fact("makes_score", spec.kernel.score) + fact("makes_values", spec.kernel.values);
  all += fact("has_focus", spec.has_focus) + fact("has_output", spec.has_output) + fact("has_hidden", spec.has_hidden);
  all += fact("has_product", spec.has_product) + fact("has_window", spec.has_window) + fact("has_sink", spec.has_sink);
  all += fact("has_dropout", spec.has_dropout) + fact("renormalizes", spec.renormalizes);
  all += fact("has_densities", spec.has_densities) + fact("has_relative_values", spec.has_relative_values);
  all += fact("has_rows", spec.has_rows) + fact("continues", spec.continues);
  return all + fact("is_approximate", spec.rounds);
}

const char* function_of(Pass pass) {
  constexpr const char* names[] = {"attention_focus", "attention_forward", "attention_query_gradients",
                                   "attention_key_gradients"};
  return names[static_cast<int>(pass)];
}

std::string kernel_text(const SpecOfCall& spec) {
  const BlockShape& block = spec.block;
  const char* number = spec.number == DType::f64 ? "double" : "float";
  std::string functions, members;
  std::size_t first = 0;  // of the expression's constants
  auto add = [&](const char* name, const Expression& expression, bool is_gradient) {
    functions += source_of(expression, fmt::format("{}_expression", name));
    if (is_gradient)
      members += fmt::format(R"(
  __device__ void {0}(T g, const T* x, T* to) const {{
    T all[{1}];
    all[0] = g;
    for (int k = 1; k < {1}; ++k) all[k] = x[k - 1];
    {0}_expression(all, constants + {2}, to);
  }})",
                             name, expression.inputs, first);
    else
      members += fmt::format(R"(
  __device__ T {0}(const T* x) const {{
    T y;
    {0}_expression(x, constants + {1}, &y);
    return y;
  }})",
                             name, first);
    first += expression.constants.size();
  };
  add("logit", spec.logit, false), add("logit_gradients", spec.logit_gradients, true);
  add("weight", spec.weight, false), add("weight_gradients", spec.weight_gradients, true);
  return fmt::format(
      R"(#include "cuda/attention/focus.cuh"
#include "tensor/formula/gpu_math.h"
namespace fovea {{
using namespace gpu;
{functions}
struct Spec {{
  using T = {number};
  using Number = T;
  using Factor = {factor};
  static constexpr int width = {width}, value_width = {value_width}, warps = {warps}, columns = {columns},
                       most = {most}, most_slots = {slots}, most_sources = {sources}, most_always = {always},
                       most_dilations = {dilations}, most_masks = {masks};
  static constexpr cuda::BlockShape shape() {{
    return {{warps, columns, width, value_width, sizeof(Factor), sizeof(Number), most_slots, most_sources, {hidden},
            {segment}, {stages}}};
  }}
  static __device__ constexpr int key_step(int count) {{ return shape().key_step(count); }}
  static __device__ constexpr bool makes_source(int s) {{ return {made_sources}u >> s & 1; }}
{facts}{members}
  T constants[{constants}];
}};
extern "C" __global__ void __launch_bounds__({threads}, 1) {kernel}(
    const __grid_constant__ cuda::AttentionCall<{number}> call, const __grid_constant__ Spec spec) {{
  cuda::{pass}(call, spec);
}}
}}
)",
      fmt::arg("functions", functions), fmt::arg("number", number),
      fmt::arg("factor", spec.rounds ? "cuda::Bf16" : number), fmt::arg("width", block.width),
      fmt::arg("value_width", block.value_width), fmt::arg("warps", block.warps), fmt::arg("columns", block.columns),
      fmt::arg("most", std::max<std::size_t>(spec.indices.size(), 1)), fmt::arg("slots", block.slots),
      fmt::arg("sources", block.sources), fmt::arg("always", spec.always), fmt::arg("dilations", spec.dilations),
      fmt::arg("masks", spec.masks), fmt::arg("hidden", spec.has_hidden), fmt::arg("segment", block.segment),
      fmt::arg("stages", block.stages), fmt::arg("made_sources", spec.kernel.sources),
      fmt::arg("facts", facts_of(spec)), fmt::arg("members", members), fmt::arg("constants", constants_of(spec).size()),
      fmt::arg("threads", 32 * block.warps), fmt::arg("kernel", kernel_of_text),
      fmt::arg("pass", function_of(spec.kernel.pass)));
}

/// Bytes that are equal only for calls whose kernels are equal.
std::string key_of(const TileCall& call, const Kernel& kernel, int most_bytes) {
  const LoweredCall& lowered = call.lowered;
  std::string key;
  auto add = [&](auto... numbers) {
    for (std::int64_t number : {static_cast<std::int64_t>(numbers)...})
      key.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  add(most_bytes, kernel.pass, kernel.score, kernel.values, kernel.sources, kernel.focus, lowered.focus.has_value(),
      lowered.values.dtype(), call.products, lowered.queries.defined(), width_of(lowered), lowered.segment,
      call.only_totals, call.traces_rows, lowered.hidden_weight.defined(), lowered.values.size(3),
      lowered.sink.defined(), call.dropout.probability > 0, lowered.renormalizes, lowered.densities,
      lowered.relative.table.defined(), lowered.extra.keys.defined(), lowered.always.size(), lowered.dilations.size(),
      lowered.masks.size());
  for (const LoweredFormula* formula : {&lowered.logit, &lowered.window}) {
    add(formula->parts.size(), formula->captures.size());
    for (const PointwiseFormula& part : formula->parts) part.append_identity(key);
    for (const LoweredCapture& capture : formula->captures) add(capture.indexing, capture.source);
  }
  for (bool wants : call.wants) add(wants);
  for (const LoweredSource& source : lowered.sources) add(source.kind);
  return key;
}

}  // namespace

bool halve_tiles(KernelOfCall& kernel) {
  if (kernel.spec.block.columns <= 16) return false;
  kernel.spec.block.columns /= 2;
  kernel.text = kernel_text(kernel.spec);
  return true;
}

std::shared_ptr<const KernelOfCall> kernel_of(const TileCall& call, const Kernel& kernel, int most_bytes,
                                              bool (*spills)(const KernelOfCall&)) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::shared_ptr<const KernelOfCall>>;  // never destroyed
  constexpr std::size_t most_known = 1024;
  const std::string key = (spills ? "fitting " : "") + key_of(call, kernel, most_bytes);
  {
    std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  auto made = std::make_shared<KernelOfCall>();
  made->spec = spec_of(call, kernel, most_bytes);
  made->text = kernel_text(made->spec);
  made->constants = constants_of(made->spec);
  while (spills && spills(*made) && halve_tiles(*made)) continue;
  std::lock_guard lock(mutex);
  if (known.size() >= most_known) known.clear();
  return known[key] = made;
}

}  // namespace fovea::cuda
