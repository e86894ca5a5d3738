// The program attend: the worked examples of every method from files, gradients against differences, and what it
// refuses.
#include "attention/engine/attend.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include <boost/test/unit_test.hpp>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/attend/attend.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/attend/attention_catalogue.h"
#include "experiments/support/program/program.h"
#include "tests/attention/attentions.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Values = std::vector<double>;

/// A file of inputs, the program's flags, and the file that it writes.
class Attend {
 public:
  explicit Attend(const std::string& method) : arguments_{"attend", "--method", method, "--precision", "f64"} {}

  Attend& with(const std::string& name, const Values& values, const Shape& shape) {
    return with(name, Tensor::from(values, shape));
  }
  Attend& with(const std::string& name, const Tensor& tensor) {
    std::erase_if(given_, [&](const auto& known) { return known.first == name; });
    given_.emplace_back(name, tensor);
    return *this;
  }
  Attend& lengths(const std::vector<std::int32_t>& lengths) {
    return with("lengths", Tensor::from(lengths, {static_cast<std::int64_t>(lengths.size())}));
  }
  Attend& step(std::int64_t step) { return with("step", Tensor::from(std::vector<std::int64_t>{step}, {1})); }
  Attend& flags(const std::vector<std::string>& more) {
    arguments_.insert(arguments_.end(), more.begin(), more.end());
    return *this;
  }

  /// The program, as the command line runs it; its inputs in a file if there are any.
  Attend& run() {
    Folder folder;
    std::vector<std::string> all = arguments_;
    if (!given_.empty()) {
      write_safetensors(folder / "in.safetensors", given_);
      all.insert(all.end(), {"--in", folder / "in.safetensors"});
    }
    all.insert(all.end(), {"--out", folder / "out.safetensors", "--weights"});
    std::vector<const char*> pointers;
    for (const std::string& argument : all) pointers.push_back(argument.c_str());
    std::string message;
    try {
      Cli cli("attend", static_cast<int>(pointers.size()), pointers.data());
      attend_program(cli);
    } catch (const Error& error) {
      message = error.what();
      BOOST_TEST(!std::filesystem::exists(folder / "out.safetensors"), "a file was written after: " << message);
      if (auto at = message.find(folder.path.string()); at != std::string::npos)
        message.erase(at, folder.path.string().size() + 1);
      throw Error(message);
    }
    result_ = read_safetensors(folder / "out.safetensors");
    return *this;
  }
  std::string refusal() {
    return message_of([&] { run(); });
  }

  const Safetensors& result() const { return result_; }
  Values values(const std::string& name) const { return result_.at(name).to_vector<double>(); }
  Values row_sums() const {
    const Tensor& weights = result_.at("weights");
    std::int64_t n = weights.size(-1);
    Values all = weights.to_vector<double>(), sums(all.size() / n);
    for (std::size_t k = 0; k < all.size(); ++k) sums[k / n] += all[k];
    return sums;
  }

 private:
  std::vector<std::string> arguments_;
  std::vector<std::pair<std::string, Tensor>> given_;
  Safetensors result_;
};

/// Equal to the printed digits.
void check(const Values& computed, const Values& printed, double tolerance = 1e-6) {
  BOOST_REQUIRE(computed.size() >= printed.size());
  for (std::size_t k = 0; k < printed.size(); ++k)
    BOOST_TEST(std::abs(computed[k] - printed[k]) < tolerance,
               "entry " << k << ": " << computed[k] << ", printed " << printed[k]);
}

/// X = ((1, 0), (0, 1), (1, 1)), W^Q, W^K, W^V, W^O = I; biases start at 0.
Attend toy(const std::string& method) {
  Attend attend(method);
  attend.with("query", {1, 0, 0, 1, 1, 1}, {1, 3, 2})
      .with("query.weight", {1, 0, 0, 0.5}, {2, 2})
      .with("key.weight", {0.5, 0.5, 0, 1}, {2, 2})
      .with("value.weight", {1, 0, 1, 1}, {2, 2})
      .with("output.weight", {1, 0, 0, 1}, {2, 2});
  return attend;
}

Attend gaussian(const std::string& method) {
  return toy(method)
      .with("gaussian.hidden.weight", {0.5, 0, 0, -0.5}, {2, 2})
      .with("gaussian.center.weight", {1, 1}, {2, 1});
}

Attend window(const std::string& method) {
  return toy(method)
      .with("window.left_query.weight", {0.5, 0, 0.5, 0.5}, {2, 2})
      .with("window.left_key.weight", {1, 0, 0, 1}, {2, 2})
      .with("window.right_query.weight", {0, 0.5, 0.5, 0}, {2, 2})
      .with("window.right_key.weight", {1, 0.5, 0, 1}, {2, 2});
}
Attend additive_window(const std::string& method) {
  return window(method)
      .with("window.local_query.weight", {0.3, 0, 0, 0.3}, {2, 2})
      .with("window.local_key.weight", {0.2, 0.1, 0.1, 0.2}, {2, 2});
}

/// h_0, ..., h_3 and s of the slides.
Attend slide(const std::string& method) {
  return Attend(method).with("query", {0.5, 1}, {1, 1, 2}).with("key", {1, 0, 0, 1, 1, 1, 0.5, -0.5}, {1, 4, 2});
}

Attend local(const std::string& method) {
  Values points;
  for (int j = 0; j < 8; ++j) points.insert(points.end(), {std::cos(j), std::sin(j)});
  return Attend(method).with("query", {0.5, 1}, {1, 1, 2}).with("key", points, {1, 8, 2});
}
Attend predictive(const std::string& method) {
  return local(method).with("local_p.projection", {1, 0.25, -0.5, 1}, {2, 2}).with("local_p.vector", {1, -0.5}, {2});
}

/// The scores and the gate of the worked example.
Attend flexible(const std::string& options, double gate, double focus) {
  return Attend("classic(location(longest=8)+flexible" + options + ")")
      .with("query", {1}, {1, 1, 1})
      .with("key", {1, 2, 3, 4, 5, 6, 7, 8}, {1, 8, 1})
      .with("previous_focus", {focus}, {1})
      .with("location.weight", {0.2, 1, 0.5, 2, 0.1, -0.3, 0.8, 0}, {1, 8})
      .with("flexible.gate_projection", {0}, {1, 1})
      .with("flexible.gate_vector", {0}, {1})
      .with("flexible.gate_bias", {std::log(gate / (1 - gate))}, {1});
}

/// "dman", "dman(log_floor=true)", ...: every method, and every method with one option changed.
std::vector<std::string> methods_and_options() {
  std::vector<std::string> all;
  for (const MethodEntry& entry : registered_methods()) {
    all.emplace_back(entry.card.name);
    test::Alternatives alternatives;
    entry.configure(alternatives);
    for (const std::string& change : alternatives.found) all.push_back(fmt::format("{}({})", entry.card.name, change));
  }
  return all;
}

/// Names and shapes of what a run writes, from the output on.
using Results = std::vector<std::pair<std::string, std::string>>;
using Sizes = std::map<std::string, std::int64_t>;

/// A shape of a description, "[B, 2 d_v, d_q / 2]", with its letters replaced by these sizes.
std::string with_sizes(const std::string& shape, const Sizes& sizes) {
  std::vector<std::int64_t> numbers;
  std::istringstream parts(shape.substr(1, shape.size() - 2));
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream words(part);
    std::int64_t number = 1;
    char operation = '*';
    for (std::string word; words >> word;) {
      if (word == "/" || word == "+") {
        operation = word[0];
        continue;
      }
      const std::int64_t size = std::isdigit(static_cast<unsigned char>(word[0])) ? std::stoll(word) : sizes.at(word);
      number = operation == '/' ? number / size : operation == '+' ? number + size : number * size;
    }
    numbers.push_back(number);
  }
  return Shape(numbers).str();
}

/// The results that a description promises to a run; `option` is the option of the method that this run changes.
Results promised_results(const std::string& description, const Sizes& sizes, const std::string& option = "none") {
  Results results;
  std::istringstream lines(description.substr(description.find("\nresult ") + 1));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const std::size_t first = line.find('['), last = line.find(']') + 1;
    const std::string when = line.substr(line.find_first_not_of(' ', last));
    const bool named = contains(" " + when + ",", " " + option + ",");
    if (when != "always" && when != "--weights" && named == when.starts_with("not with ")) continue;
    results.emplace_back(line.substr(0, line.find(' ')), with_sizes(line.substr(first, last - first), sizes));
  }
  return results;
}

/// What a run in this place writes, and its sizes. Nothing where the method is not defined there.
struct PlacedRun {
  Results results;
  Sizes sizes;
};
std::optional<PlacedRun> run_in_place(const std::string& method, Place place, bool lengths,
                                      AttentionEngine engine = AttentionEngine::fastest) {
  const bool own_keys = place != Place::encoder, widths = find_combination(parse_specification(method)[0].name);
  const std::int64_t B = 3, m = 4, n = own_keys ? 7 : m, d = 6;
  for (auto [d_k, d_v] : {std::pair(10, 8), std::pair(6, 8), std::pair(6, 6)}) {
    if ((!widths && place != Place::cross && d_v != d) || (!own_keys && d_v != d)) continue;
    Safetensors file;
    Generator generator(5);
    auto add = [&](const char* name, const Shape& shape) {
      file.tensors.emplace_back(name, test::random_tensor(shape, generator, 0, 1));
    };
    add("query", {B, m, d});
    if (own_keys) add("key", {B, n, d_k}), add("value", {B, n, d_v});
    add("mask", {1, 1, m, n});
    if (lengths) file.tensors.emplace_back("lengths", Tensor::from(std::vector<std::int64_t>{n, 1, 2}, {B}));
    AttentionCase options{
        .method = method, .heads = 2, .causal = place == Place::decoder, .place = place, .engine = engine};
    options.weights = true;
    PlacedRun run{{}, {{"B", B}, {"m", m}, {"n", n}, {"H", 2}, {"d", d}, {"D", d / 2}}};
    run.sizes.insert({{"d_q", d}, {"d_k", d_k}, {"d_v", d_v}});
    try {
      for (const auto& [name, tensor] : attend_case(options, file).tensors)
        if (name == "output" || !run.results.empty()) run.results.emplace_back(name, tensor.shape().str());
      return run;
    } catch (const Error&) {
    }
  }
  return std::nullopt;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attend)

BOOST_AUTO_TEST_CASE(plain_attention_of_the_worked_example) {
  Attend plain = toy("global").run();
  check(plain.values("weights"),
        {0.37007, 0.259859, 0.37007, 0.276435, 0.329888, 0.393677, 0.306552, 0.256881, 0.436567});
  check(plain.values("output"), {1.37007, 0.62993, 1.393677, 0.723565, 1.436567, 0.693448});
  Attend causal = toy("global").flags({"--causal"}).run();
  check(causal.values("weights"), {1, 0, 0, 0.455921, 0.544079, 0, 0.306552, 0.256881, 0.436567});
  check(causal.values("output"), {1, 0, 1, 0.544079, 1.436567, 0.693448});
  check(toy("global").lengths({2}).run().values("weights"),
        {0.587479, 0.412521, 0, 0.455921, 0.544079, 0, 0.544079, 0.455921, 0});
}

BOOST_AUTO_TEST_CASE(relative_positions_of_the_worked_example) {
  Attend attend = toy("relative(clip=1)")
                      .with("relative.key_table", {0.1, -0.2, 0, 0, 0.3, 0.2}, {3, 2})
                      .with("relative.value_table", {-0.5, 0, 0, 0, 0.25, 0.5}, {3, 2})
                      .run();
  check(attend.values("weights"),
        {0.32212, 0.27964, 0.39824, 0.25502, 0.326631, 0.418349, 0.306552, 0.256881, 0.436567});
  check(attend.values("output"), {1.56771, 1.01682, 1.395427, 0.954155, 1.15485, 0.693448});
}

BOOST_AUTO_TEST_CASE(gaussian_bias_of_the_worked_example) {
  Attend fixed = gaussian("gaussian(window=fixed)").run();
  check(fixed.values("center"), {1.227033, 0.878149, 1.108174});
  check(fixed.values("weights"),
        {0.364799, 0.263716, 0.371485, 0.276101, 0.334511, 0.389387, 0.303481, 0.260569, 0.43595});
  Attend query = gaussian("gaussian").with("gaussian.width.weight", {-1, 0.5}, {2, 1}).run();
  check(query.values("width"), {1.259451, 1.50827, 1.173641});
  check(query.values("weights"),
        {0.117169, 0.514625, 0.368206, 0.235401, 0.546197, 0.218401, 0.116689, 0.571832, 0.311479});
  check(query.values("output"), {1.368206, 0.882831, 1.218401, 0.764599, 1.311479, 0.883311});
  Attend layer = gaussian("gaussian(window=layer)")
                     .with("gaussian.width_hidden.weight", {1, 0, 0, 1}, {2, 2})
                     .with("gaussian.width.weight", {-1, 0.5}, {2, 1})
                     .run();
  check(layer.values("width"), {1.64445}, 1e-5);
  check(layer.values("weights"), {0.199374, 0.410361, 0.390265});
  Attend head = gaussian("gaussian(window=head)").run();
  check(head.values("width"), {25.1});
  check(head.values("weights"), {0.369232, 0.26047, 0.370298});
  Attend paper = gaussian("gaussian(center_scale=paper,epsilon=0)").with("gaussian.width.weight", {-1, 0.5}, {2, 1});
  paper.run();
  check(paper.values("center"), {0.840549, 0.317224, 0.662261});
  check(paper.values("width"), {1.159451, 1.40827, 1.073641});
}

BOOST_AUTO_TEST_CASE(windows_of_given_pointers) {
  // Keys are unit vectors and queries the logarithms of the pointers: the pointers are these numbers.
  auto mask = [](const std::string& method, const Values& left, const Values& right) {
    auto n = static_cast<std::int64_t>(left.size());
    Values identity(left.size() * left.size());
    for (std::size_t k = 0; k < left.size(); ++k) identity[k * left.size() + k] = 1;
    auto logits = [&](Values pointer) {
      for (double& x : pointer) x = std::log(x) * std::sqrt(static_cast<double>(n));
      return pointer;
    };
    Attend attend(method);
    attend.flags({"--place", "cross"}).with("query", Values(left.size()), {1, 1, n}).with("key", identity, {1, n, n});
    for (auto [side, pointer] : {std::pair("left", left), std::pair("right", right)}) {
      std::string name = std::string("window.") + side;
      attend.with(name + "_query.bias", logits(pointer), {n}).with(name + "_key.weight", identity, {n, n});
    }
    return attend.run().values("window");
  };
  const Values left{0.1, 0.6, 0.2, 0.1}, right{0.05, 0.15, 0.5, 0.3};
  check(mask("window", left, right), {0.15, 0.845, 0.93, 0.4}, 1e-9);
  check(mask("window(mask=exact)", left, right), {0.145, 0.755, 0.83, 0.37}, 1e-9);
  check(mask("window(segment=2)", left, right), {0.9, 0.9, 1.1, 1.1}, 1e-9);
  check(mask("window(segment=2)", {0.1, 0.2, 0.3, 0.2, 0.2}, {0.2, 0.1, 0.1, 0.2, 0.4}), {0.6, 0.6, 0.98, 0.98, 0.6},
        1e-9);
  check(mask("window(mask=exact)", Values(4, 0.25), Values(4, 0.25)), {0.4375, 0.6875, 0.6875, 0.4375}, 1e-9);
  check(mask("window", Values(4, 0.25), Values(4, 0.25)), {0.5, 0.75, 0.75, 0.5}, 1e-9);
  // l = 3, r = 8 of ten, counted from 1: the discrete mask; and l = 7, r = 2, which eq. 9 opens as well
  auto at = [](std::size_t key) {
    Values pointer(10, 1e-300);
    pointer[key] = 1;
    return pointer;
  };
  const Values between{0, 0, 1, 1, 1, 1, 1, 1, 0, 0};
  check(mask("window", at(2), at(7)), between, 1e-12);
  check(mask("window", at(7), at(2)), between, 1e-12);
  check(mask("window(mask=discrete)", {0.1, 0.1, 0.5, 0.2, 0.1}, {0.1, 0.1, 0.2, 0.5, 0.1}), {0, 0, 1, 1, 0}, 1e-12);
  check(mask("window(mask=discrete)", at(7), at(2)), Values(10), 1e-12);
  check(mask("window(mask=discrete,segment=3)", at(4), at(7)), {0, 0, 0, 1, 1, 1, 1, 1, 1, 0}, 1e-12);
}

BOOST_AUTO_TEST_CASE(differentiable_windows_of_the_worked_example) {
  Attend mw = window("window").run();
  check(mw.values("left_pointer"),
        {0.37007, 0.259859, 0.37007, 0.292046, 0.292046, 0.415908, 0.319866, 0.224606, 0.455527});
  check(mw.values("right_pointer"),
        {0.276435, 0.329888, 0.393677, 0.37007, 0.259859, 0.37007, 0.306552, 0.256881, 0.436567});
  check(mw.values("window"),
        {0.646506, 0.837736, 0.763747, 0.662116, 0.813898, 0.785979, 0.626418, 0.760773, 0.892094});
  check(mw.row_sums(), {0.739586, 0.760949, 0.776917});
  check(mw.values("output"), {1.022226, 0.500334, 1.07037, 0.577917, 1.166376, 0.584887});
  Attend causal = window("window").flags({"--causal"}).run();
  check(causal.values("window"), {2, 0, 0, 1.087479, 0.912521, 0, 0.626418, 0.760773, 0.892094});
  check(causal.values("output"), {2, 0, 0.992288, 0.496484, 1.166376, 0.584887});
  Attend aw = additive_window("window(use=additive)").run();
  check(aw.values("weights"),
        {0.368075, 0.255974, 0.375952, 0.270684, 0.32971, 0.399606, 0.296018, 0.250183, 0.453799});
  check(aw.values("output"), {1.375952, 0.631925, 1.399606, 0.729316, 1.453799, 0.703982});
  Attend cross = additive_window("window(use=additive,segment=2)")
                     .with("key", {1, 0, 0, 1, 1, 1}, {1, 3, 2})
                     .with("query", {0, 1, 1, -1}, {1, 2, 2})
                     .run();
  check(cross.values("window"), {1.214021, 1.214021, 0.785979, 1.362597, 1.362597, 0.637403});
  check(cross.values("output"), {1.396107, 0.728526, 1.30488, 0.553081});
}

BOOST_AUTO_TEST_CASE(mask_attention_of_the_worked_example) {
  auto dman = [] {
    return toy("dman(clip=2)")
        .with("dman.weight", {0.5, -1}, {2})
        .with("dman.left", {1, -2}, {2})
        .with("dman.right", {0.5, -1}, {2})
        .with("dman.head", {0.2}, {1});
  };
  const Values weights{0.409079, 0.330385, 0.260536, 0.360346, 0.24247, 0.397184, 0.072487, 0.44541, 0.482102};
  Attend dynamic = dman().run();
  check(dynamic.values("mask"),
        {0.668188, 0.768525, 0.425557, 0.549834, 0.310026, 0.425557, 0.091123, 0.668188, 0.425557});
  check(dynamic.values("weights"), weights);
  check(dynamic.values("output"), {1.260536, 0.590921, 1.397184, 0.639654, 1.482102, 0.927513});
  check(dman().flags({"--causal"}).run().values("weights"), {1, 0, 0, 0.597771, 0.402229, 0});
  check(toy("man").with("mask", dynamic.result().at("mask")).run().values("weights"), weights);

  const Values near{0.587479, 0.412521, 0, 0.276435, 0.329888, 0.393677, 0, 0.37044, 0.62956};
  check(toy("sman(width=fixed,distance=1)").run().values("weights"), near);
  Tensor band = Tensor::of({1, 1, 0, 1, 1, 1, 0, 1, 1}, {1, 1, 3, 3}).to(DType::boolean);
  check(toy("man").with("mask", band).run().values("weights"), near);
  check(toy("global").with("allowed", band).run().values("weights"), near);
  check(toy("global").with("allowed", band.to(DType::u8)).run().values("allowed"), {1, 1, 0, 1, 1, 1, 0, 1, 1});
  // Two documents: the third token is alone.
  const Tensor documents = Tensor::from(std::vector<std::int32_t>{4, 4, 7}, {1, 3});
  Attend packed = toy("global").with("documents", documents).run();
  check(packed.values("weights"), {0.587479, 0.412521, 0, 0.455921, 0.544079, 0, 0, 0, 1});
  check(packed.values("documents"), {4, 4, 7});
  // Pointers between which the window is given, and a grid of two rows.
  const Tensor left = Tensor::from(std::vector<std::int64_t>{0, 1, 2}, {1, 1, 3}),
               right = Tensor::from(std::vector<std::int32_t>{1, 1, 2}, {1, 1, 3});
  Attend between = toy("window(pointers=given,mask=exact)").with("left_pointer", left).with("right_pointer", right);
  check(between.run().values("window"), {1, 1, 0, 0, 1, 0, 0, 0, 1});
  check(between.values("left_pointer"), {0, 1, 2});
  const Tensor grid = Tensor::from(std::vector<std::int64_t>{0, 0, 0, 1, 1, 0}, {3, 2});
  Attend image = toy("relative_2d(clip=1)")
                     .with("grid", grid)
                     .with("relative_2d.rows", {0, 0, 0, 0, 9, 0}, {3, 2})
                     .with("relative_2d.columns", {0, 0, 0, 0, 0, 0}, {3, 2})
                     .run();
  // the key in the row behind has 9 q_0 / sqrt(2) more: only query 0 and 1 have one, and only query 0 has q_0 = 1
  check(image.values("weights"), {0.001717, 0.001206, 0.997077, 0.276435, 0.329888, 0.393677});
  // Where x W + U is far below 0 the weights are softmax(P), far above there is no mask. Query 2: keys are t - s = 2,
  // ...
  auto shaped = [](double a) {
    return Attend("dman(clip=2)")
        .with("query", Values(10), {1, 5, 2})
        .with("dman.left", {1, -2}, {2})
        .with("dman.right", {0.5, -1}, {2})
        .with("dman.head", {a}, {1})
        .run()
        .values("weights");
  };
  auto middle = [&](double a) {
    Values all = shaped(a);
    return Values(all.begin() + 10, all.begin() + 15);
  };
  check(middle(-20), {0.0231, 0.4631, 0.1704, 0.2809, 0.0627}, 6e-5);
  check(middle(0), {0.0532, 0.3261, 0.223, 0.2777, 0.12}, 6e-5);
  check(middle(20), Values(5, 0.2), 1e-7);
  Attend block = Attend("man+activation(function=relu,width=3)")
                     .with("query", {1, 0, 0, 1, 1, 1}, {1, 3, 2})
                     .with("mask", {1, 0, 0, 0, 1, 0, 0, 0, 1}, {1, 1, 3, 3})
                     .with("value.weight", {1, -1, 0.5, 0, 2, -1}, {2, 3})
                     .with("output.weight", {1, 0, 0, 1, 0.5, 0.5}, {3, 2})
                     .run();
  check(block.values("output"), {1.25, 0.25, 0, 2, 1, 1});
}

BOOST_AUTO_TEST_CASE(scores_and_positions_of_the_slides) {
  auto general = slide("classic(general)").with("general.weight", {1, 0.5, 0, 1}, {2, 2});
  auto additive = slide("classic(additive)")
                      .with("additive.query_projection", {1, 0, 0, 1}, {2, 2})
                      .with("additive.key_projection", {0.5, 0, 0, 2}, {2, 2})
                      .with("additive.bias", {0.1, -0.1}, {2})
                      .with("additive.vector", {1, -1}, {2});
  auto location =
      slide("classic(location(longest=6))").with("location.weight", {1, 0, -1, 0.5, 2, 0, 0, 1, 1, 0.5, 0, -1}, {2, 6});
  auto fine = slide("classic(fine_grained)")
                  .with("fine_grained.query_projection", {1, 0, 0, 1}, {2, 2})
                  .with("fine_grained.key_projection", {0.5, 0, 0, 2}, {2, 2})
                  .with("fine_grained.bias", {0.1, -0.1}, {2})
                  .with("fine_grained.dimensions", {1, 0.5, -1, 0.5}, {2, 2});
  struct Row {
    Attend attend;
    Values weights, output;
  };
  for (Row& row : std::vector<Row>{
           {slide("classic(mean)"), {0.25, 0.25, 0.25, 0.25}, {0.625, 0.375}},
           {slide("classic(laplace)").step(1), {0.18394, 0.5, 0.18394, 0.067668}, {0.401713, 0.650106}},
           {slide("classic(laplace(normalize=true))").step(1), {0.196612, 0.534447, 0.196612, 0.072329}, {}},
           {slide("classic(gaussian_location)").step(1),
            {0.241971, 0.398942, 0.241971, 0.053991},
            {0.510937, 0.613918}},
           {slide("classic(gaussian_location(normalize=true))").step(1).lengths({3}),
            {0.274069, 0.451863, 0.274069, 0},
            {}},
           {slide("classic(dot)"), {0.171251, 0.282346, 0.465509, 0.080893}, {0.677208, 0.707409}},
           {slide("classic(scaled_dot)"), {0.198387, 0.282527, 0.402352, 0.116733}, {0.659106, 0.626513}},
           {general, {0.142365, 0.301386, 0.496902, 0.059347}, {0.66894, 0.768615}},
           {additive, {0.229011, 0.133307, 0.173487, 0.464195}, {0.634595, 0.074696}},
           {location, {0.202727, 0.33424, 0.202727, 0.260306}, {0.535607, 0.406814}},
           {fine,
            {0.229011, 0.264156, 0.133307, 0.26604, 0.173487, 0.303497, 0.464195, 0.166308},
            {0.634595, 0.486383}},
           {slide("average(dot, gaussian_location(normalize=true))").step(1),
            {0.171251, 0.282346, 0.465509, 0.080893, 0.258274, 0.425822, 0.258274, 0.057629},
            {0.611285, 0.681345}},
           {slide("concat(dot, gaussian_location(normalize=true))")
                .step(1)
                .with("output.weight", {0.5, 0, 0, 0.5, 0.5, 0.1, -0.1, 0.5}, {4, 2}),
            {},
            {0.545757, 0.735882}}}) {
    row.attend.run();
    check(row.attend.values("weights"), row.weights);
    check(row.attend.values("output"), row.output);
  }
  check(slide("classic(dot)").run().values("scores"), {0.5, 1, 1.5, -0.25});
  check(slide("classic(scaled_dot)").run().values("scores"), {0.353553, 0.707107, 1.06066, -0.176777});
  check(general.run().values("scores"), {0.5, 1.25, 1.75, -0.375});
  check(additive.run().values("scores"), {0.084201, -0.456914, -0.193464, 0.790737});
  check(location.run().values("scores"), {0.5, 1, 0.5, 0.75});
  check(slide("classic(laplace)").step(1).run().values("density_sum"), {0.935547});
  check(slide("classic(gaussian_location)").step(1).run().values("density_sum"), {0.936875});
  check(slide("classic(gaussian_location(normalize=true))").step(1).run().values("weights"),
        {0.258274, 0.425822, 0.258274, 0.057629});
}

BOOST_AUTO_TEST_CASE(local_windows_of_the_worked_example) {
  check(local("classic(dot+local_m(half_width=1))").step(2).run().values("weights"),
        {0, 0.527886, 0.350192, 0.121922, 0, 0, 0, 0});
  check(local("classic(dot+local_m(half_width=1))").run().values("weights"), {0.351689, 0.648311, 0, 0, 0, 0, 0, 0});
  Attend late = local("classic(dot+local_m(half_width=1))").step(9).run();
  check(late.values("weights"), {0, 0, 0, 0, 0, 0, 0.302954, 0.697046});
  check(late.values("range"), {6, 7});
  Attend local_p = predictive("classic(dot+local_p(half_width=2))").run();
  check(local_p.values("center"), {2.801369});
  check(local_p.values("range"), {0, 4});
  check(local_p.values("weights"), {0.004208, 0.077473, 0.188839, 0.088869, 0.021302, 0, 0, 0});
  check(local_p.values("output"), {-0.134421, 0.233322});
  check(predictive("classic(dot+local_p(half_width=2,truncation=exact))").run().values("range"), {1, 4});
  check(predictive("classic(dot+local_p(half_width=2,center_scale=paper))").run().values("center"), {3.201564});
}

BOOST_AUTO_TEST_CASE(flexible_attention_of_the_worked_example) {
  Attend whole = flexible("", 0.6, 2.25).run();
  check(whole.values("weights"), {0.04891, 0.173583, 0.128594, 0.539149, 0.057781, 0.021256, 0.026843, 0.003883});
  check(whole.values("focus"), {2.573862});
  check(whole.values("gate"), {0.6});
  for (const char* gradients : {"--no-gradients", "--gradients"}) {
    Attend windowed = flexible("(threshold=1.2)", 0.6, 2.25).flags({gradients}).run();
    check(windowed.values("weights"), {0.050461, 0.179086, 0.13267, 0.55624, 0.059613, 0.02193, 0, 0});
    check(windowed.values("focus"), {2.461248});
    check(windowed.values("range"), {0, 5});
  }
  const double open = 1 - 1e-12;  // a gate of 1
  check(flexible("(threshold=1.2)", open, 2.25).run().values("range"), {0, 4});
  check(flexible("(threshold=1.2)", 0.01, 2.25).run().values("range"), {0, 7});
  check(flexible("(threshold=1.2)", open, 0).run().values("range"), {0, 2});
  check(flexible("(threshold=2,sigma=1)", 1, 2).run().values("range"), {1, 3});
  check(flexible("(threshold=0.01)", open, 1.5).run().values("range"), {2, 2});
  Attend gate = Attend("classic(dot+flexible)")
                    .with("query", {0.5, -1}, {1, 1, 2})
                    .with("key", {1, 2, 3, 4}, {1, 2, 2})
                    .with("step_input", {0.2, 0.4, -0.6}, {1, 1, 3})
                    .with("flexible.gate_projection", {0.3, 0, -0.2, 0.4, 0.1, -0.3, 0.5, 0.2, 0, 0.6}, {5, 2})
                    .with("flexible.gate_vector", {1.5, -1}, {2})
                    .with("flexible.gate_bias", {0.25}, {1})
                    .run();
  check(gate.values("gate"), {0.839186});
}

BOOST_AUTO_TEST_CASE(the_worked_examples_hold_in_f32) {
  auto in_f32 = [](Attend attend) { return attend.flags({"--precision", "f32"}).run(); };
  check(in_f32(gaussian("gaussian").with("gaussian.width.weight", {-1, 0.5}, {2, 1})).values("output"),
        {1.368206, 0.882831, 1.218401, 0.764599, 1.311479, 0.883311}, 1e-4);
  check(in_f32(window("window")).values("output"), {1.022226, 0.500334, 1.07037, 0.577917, 1.166376, 0.584887}, 1e-4);
  check(in_f32(additive_window("window(use=additive)")).values("output"),
        {1.375952, 0.631925, 1.399606, 0.729316, 1.453799, 0.703982}, 1e-4);
  check(in_f32(predictive("classic(dot+local_p(half_width=2))")).values("output"), {-0.134421, 0.233322}, 1e-4);
  check(in_f32(flexible("(threshold=1.2)", 0.6, 2.25)).values("focus"), {2.461248}, 1e-4);
}

BOOST_AUTO_TEST_CASE(the_context_of_some_heads_is_that_of_all) {
  Attend all = Attend("gaussian(center_input=q+ctx)").flags({"--shape", "1,4,4,6", "--heads", "2"}).run();
  Attend second = Attend("gaussian(center_input=q+ctx,heads=2)").flags({"--heads", "2"});
  for (const auto& [name, tensor] : all.result().tensors) {
    if (name == "output") break;
    bool by_head = name.starts_with("gaussian.center") || name.starts_with("gaussian.width");
    second.with(name, by_head ? tensor.slice(-1, 1, 2) : tensor);
  }
  second.run();
  Values expected = all.values("weights"), weights = second.values("weights");
  check(Values(weights.begin() + 16, weights.end()), Values(expected.begin() + 16, expected.end()), 1e-12);
}

BOOST_AUTO_TEST_CASE(projections_take_keys_and_values_of_other_widths) {
  for (const char* method : {"global", "window(use=additive)", "gaussian(window=layer)", "classic(additive+window)"}) {
    Attend attend(method);
    attend.with("query", Values(12, 0.5), {1, 3, 4}).with("key", Values(10, 0.25), {1, 2, 5});
    attend.with("value", Values(12, -1), {1, 2, 6}).flags({"--gradients"}).run();
    BOOST_TEST(attend.result().at("grad.key").shape() == (Shape{1, 2, 5}));
    BOOST_TEST(attend.result().at("grad.value").shape() == (Shape{1, 2, 6}));
  }
}

BOOST_AUTO_TEST_CASE(inputs_that_change_nothing_are_named) {
  using Names = std::vector<std::string>;
  Safetensors file;
  auto add = [&](const std::string& name, const Shape& shape) {
    file.tensors.emplace_back(name, Tensor::full(shape, 0.5, DType::f64));
  };
  add("query", {1, 3, 4});
  add("key", {1, 3, 4});
  add("mask", {1, 1, 3, 3});
  add("step_input", {1, 3, 2});
  add("previous_focus", {1});
  auto unread = [&](const std::string& method, int heads = 1) {
    AttentionCase options{.method = method, .heads = heads, .place = Place::cross};
    return attend_case(options, file).unread;
  };
  BOOST_TEST(unread("alibi") == (Names{"mask", "step_input", "previous_focus"}));
  BOOST_TEST(unread("man") == (Names{"step_input", "previous_focus"}));
  BOOST_TEST(unread("heads(man, global)", 2) == (Names{"step_input", "previous_focus"}));
  BOOST_TEST(unread("classic(additive+flexible)") == Names{"mask"});
}

BOOST_AUTO_TEST_CASE(a_parameter_of_one_head_may_have_the_dimension_of_heads) {
  auto general = [](const Shape& shape) {
    return slide("general").with("general.weight", {1, 0.5, 0, 1}, shape).run().values("output");
  };
  check(general({1, 2, 2}), general({2, 2}), 1e-15);
}

BOOST_AUTO_TEST_CASE(printed_ranges_are_enforced) {
  struct Bounds : OptionVisitor {
    struct Option {
      std::string name;
      double lowest, highest;
    };
    void number(const char* name, double&, double lowest, double highest, const char*) override {
      found.push_back({name, lowest, highest});
    }
    void integer(const char* name, std::int64_t&, std::int64_t lowest, std::int64_t highest, const char*) override {
      found.push_back({name, static_cast<double>(lowest), static_cast<double>(highest)});
    }
    void flag(const char*, bool&, const char*) override {}
    void choice(const char*, int&, const std::vector<std::string>&, const char*) override {}
    std::vector<Option> found;
  };
  for (const MethodEntry& entry : registered_methods()) {
    Bounds bounds;
    entry.configure(bounds);
    std::string description = describe_attention(entry.card.name, {.model_dim = 8, .heads = 1});
    for (const auto& [name, lowest, highest] : bounds.found) {
      std::string refused_name = name;
      auto refusal = [&](double value) {
        std::string method = fmt::format("{}({}={})", entry.card.name, refused_name, value);
        return message_of([&] { attention_factory(method)({.model_dim = 8, .heads = 1, .place = Place::cross}); });
      };
      auto printed = [](double x) {
        return x > 1e6 && std::isfinite(x) ? fmt::format("{:.0f}", x) : fmt::format("{}", x);
      };
      BOOST_TEST(contains(description, printed(lowest) + " to " + printed(highest)), entry.card.name << " " << name);
      BOOST_TEST(contains(refusal(lowest - 1), "use a"), entry.card.name << " " << name);
      if (std::isfinite(highest)) BOOST_TEST(contains(refusal(highest + 1), "use a"), entry.card.name << " " << name);
      BOOST_TEST(!contains(refusal(lowest), "use a"), entry.card.name << " " << name << ": " << refusal(lowest));
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_differences_for_inputs_and_parameters) {
  struct Case {
    std::string method;
    std::vector<std::string> flags;
  };
  for (const Case& example : {Case{"gaussian+man", {"--heads", "2", "--causal"}},
                              Case{"concat(additive+flexible, general, width=2)", {"--engine", "composed"}}}) {
    Attend first = Attend(example.method).flags(example.flags).flags({"--gradients"}).lengths({4, 2});
    Tensor mask = Tensor::of({0.3, 0.9, 0.2, 0.7, 0.6, 0.8, 0.1, 0.4, 0.5, 0.35, 0.75, 0.25}, {1, 1, 3, 4});
    Generator generator(3);
    bool masked = contains(example.method, "man");
    auto add = [&](const char* name, const Shape& shape) {
      Tensor x = Tensor::empty(shape, DType::f64);
      fill_normal(x, generator);
      first.with(name, x);
    };
    add("query", {2, 3, 4});
    add("key", {2, 4, 4});
    if (masked)
      first.with("mask", mask).run();
    else
      add("step_input", {2, 3, 2}), first.with("previous_focus", {0.4, 1.2}, {2}).run();
    auto objective = [&](Attend& attend) {
      Values output = attend.run().values("output"), cotangent = first.values("cotangent");
      double sum = 0;
      for (std::size_t k = 0; k < output.size(); ++k) sum += output[k] * cotangent[k];
      return sum;
    };
    int checked = 0;
    for (const auto& [name, gradient] : first.result().tensors) {
      if (!name.starts_with("grad.")) continue;
      ++checked;
      std::string input = name.substr(5);
      std::size_t at = static_cast<std::size_t>(gradient.elements()) / 2;
      auto moved = [&](double by) {
        Attend attend(example.method);
        attend.flags(example.flags).lengths({4, 2});
        for (const auto& [known, tensor] : first.result().tensors) {
          if (known == "output") break;
          attend.with(known, tensor);
        }
        Tensor values = first.result().at(input).clone();
        values.mutable_data<double>()[at] += by;
        return objective(attend.with(input, values));
      };
      double numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5, analytic = gradient.to_vector<double>()[at];
      BOOST_TEST(std::abs(numeric - analytic) < 1e-7 * (1 + std::abs(numeric)),
                 example.method << ": " << name << " " << at << " is " << analytic << ", differences say " << numeric);
    }
    BOOST_TEST(checked > 12);
  }
}

BOOST_AUTO_TEST_CASE(what_was_random_is_written_and_gives_the_same_again) {
  Attend first = Attend("relative(clip=2)+dman(clip=2)")
                     .flags({"--shape", "2,5,5,6", "--heads", "3", "--seed", "4", "--weights", "--gradients"})
                     .run();
  Attend again = Attend("relative(clip=2)+dman(clip=2)").flags({"--heads", "3", "--seed", "5"});
  for (const auto& [name, tensor] : first.result().tensors) again.with(name, tensor);  // results too: made anew
  BOOST_TEST(first.values("output") == again.run().values("output"));
  BOOST_TEST(
      first.values("output") !=
      Attend("relative(clip=2)+dman(clip=2)").flags({"--shape", "2,5,5,6", "--heads", "3"}).run().values("output"));
}

// A result may be called as an input is: what attend wrote for another method is not taken for it.
BOOST_AUTO_TEST_CASE(what_was_written_can_be_read_again_under_the_same_names) {
  for (const char* method : {"sman", "dman", "man+sman"}) {
    AttentionCase options{.method = method, .heads = 2, .place = std::nullopt};
    Safetensors file;
    if (std::string(method).starts_with("man"))
      file.tensors.emplace_back("mask", Tensor::full({1, 1, 1, 6}, 0.5, DType::f32));
    AttentionResult first = attend_case(options, file);
    options.seed = 99;
    file.tensors = first.tensors;
    AttentionResult second = attend_case(options, file);
    BOOST_TEST(second.unread.empty());
    BOOST_REQUIRE(second.tensors.size() == first.tensors.size());
    for (std::size_t k = 0; k < first.tensors.size(); ++k) {
      BOOST_TEST(second.tensors[k].first == first.tensors[k].first);
      BOOST_TEST(second.tensors[k].second.to_vector<double>() == first.tensors[k].second.to_vector<double>());
    }
  }
}

BOOST_AUTO_TEST_CASE(every_engine_tells_the_same_quantities) {
  for (const char* method :
       {"classic(additive+flexible(threshold=0.4))", "gaussian(window=head)", "gaussian(window=fixed)"}) {
    auto quantities = [&](AttentionEngine engine) {
      std::vector<std::string> all;
      AttentionCase options{.method = method, .heads = 1, .place = Place::cross, .engine = engine};
      for (const auto& [name, tensor] : attend_case(options, {}).tensors) all.push_back(name + " " + tensor.describe());
      return all;
    };
    const std::vector<std::string> composed = quantities(AttentionEngine::composed);
    BOOST_TEST(composed == quantities(AttentionEngine::fused), boost::test_tools::per_element());
    const char* own = std::string(method).starts_with("classic") ? "scores f32 [2, 1, 6, 6]" : "width f32 [2, 1, 1]";
    BOOST_TEST(std::count(composed.begin(), composed.end(), own) == 1);
  }
}

BOOST_AUTO_TEST_CASE(every_precision_and_engine_is_near_f64) {
  auto run = [](const std::vector<std::string>& flags) {
    return Attend("gaussian").flags({"--shape", "2,9,9,8", "--heads", "2"}).flags(flags).run();
  };
  Attend exact = run({});
  check(run({"--engine", "composed"}).values("output"), exact.values("output"), 1e-12);
  for (auto [precision, tolerance] : {std::pair("f32", 1e-5), std::pair("bf16", 0.1)}) {
    Attend rounded = run({"--precision", precision});
    BOOST_TEST((rounded.result().at("output").dtype() == DType::f32));
    check(rounded.values("output"), exact.values("output"), tolerance);
    BOOST_TEST(rounded.values("query") != exact.values("query"));
  }
}

BOOST_AUTO_TEST_CASE(the_last_query_of_a_causal_attention_is_at_the_last_key) {
  Attend whole = Attend("alibi").flags({"--shape", "1,5,5,4", "--causal"}).run();
  Attend last = Attend("alibi").flags({"--causal"}).with("key", whole.result().at("query"));
  last.with("query", whole.result().at("query").slice(1, 3, 5)).run();
  Values expected = whole.values("output"), tail(expected.end() - 8, expected.end());
  check(last.values("output"), tail, 1e-12);
}

BOOST_AUTO_TEST_CASE(a_place_that_fits_changes_nothing) {
  check(toy("global").flags({"--causal", "--place", "decoder"}).run().values("output"),
        toy("global").flags({"--causal"}).run().values("output"), 1e-15);
  check(toy("global").flags({"--place", "encoder"}).run().values("output"), toy("global").run().values("output"),
        1e-15);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_in_one_line) {
  auto refused = [](Attend attend, const std::string& message) { BOOST_TEST(attend.refusal() == message); };
  refused(toy("gausian"), "--method: 'gausian': no method 'gausian' (column 1); did you mean 'gaussian'?");
  refused(
      toy("global").with("query.wieght", {1}, {1}),
      "in.safetensors: global has no input or parameter 'query.wieght'; did you mean 'query.weight'?; it has query, "
      "key, "
      "value, lengths, query_offset, step, documents, allowed, mask, left_pointer, right_pointer, grid, step_input, "
      "previous_focus, cotangent, query.weight, query.bias, "
      "key.weight, key.bias, value.weight, value.bias, output.weight, output.bias");
  refused(toy("global").with("query", {1, 2}, {1, 2}), "in.safetensors: 'query' is f64 [1, 2]; expected [B, m, d_q]");
  refused(toy("global").with("query", Tensor::arange(6, DType::i32).reshape({1, 3, 2})),
          "in.safetensors: 'query' is i32 [1, 3, 2]; expected f32, f64 or bf16");
  refused(toy("global").with("query.weight", {1, 2}, {2, 1}),
          "in.safetensors: 'query.weight' is f64 [2, 1]; expected [2, 2]");
  refused(toy("global").with("key", {1, 2}, {1, 1, 2}).with("value", {1, 2, 3, 4}, {1, 2, 2}),
          "in.safetensors: 'value' is f64 [1, 2, 2]; expected [1, 1, d_v], because the keys are [1, 1, 2]");
  refused(toy("global").with("key", {1, 2, 3, 4}, {2, 1, 2}),
          "in.safetensors: 'key' is f64 [2, 1, 2]; expected [1, n, d_k], because 'query' is [1, 3, 2]");
  refused(toy("global").lengths({4}), "in.safetensors: 'lengths' has 4; a length must be in 0 ... 3");
  refused(toy("global").lengths({-1}), "in.safetensors: 'lengths' has -1; a length must be in 0 ... 3");
  refused(toy("global").lengths({3, 3}), "in.safetensors: 'lengths' is i32 [2]; expected i32 or i64 [1]");
  refused(toy("global").with("lengths", {3}, {1}), "in.safetensors: 'lengths' is f64 [1]; expected i32 or i64 [1]");
  refused(toy("global").step(-1), "in.safetensors: 'step' is -1; a position must be in 0 ... 2147483648");
  refused(Attend("global").with("key", {1, 2}, {1, 1, 2}),
          "in.safetensors: there is a 'key' or 'value', but no 'query'");
  refused(Attend("global").with("query", {}, {1, 0, 2}),
          "in.safetensors: 'query' is f64 [1, 0, 2]; expected [B, m, d_q] with m at least 1");
  refused(Attend("global").with("query", {}, {1, 3, 0}),
          "in.safetensors: 'query' is f64 [1, 3, 0]; expected [B, m, d_q] with d_q at least 1");
  refused(toy("man"),
          "--method 'man': man: there is no mask; give one with the input, [B, H, I, J] with values in [0, 1]");
  refused(
      toy("man").with("mask", {1, 1, 1, 1}, {1, 1, 2, 2}),
      "--method 'man': attention: the mask is [1, 1, 2, 2]; expected [1, 1, 3, 3], where all but the last may be 1");
  refused(toy("global").with("allowed", {1, 1, 1}, {1, 1, 1, 3}),
          "in.safetensors: 'allowed' is f64 [1, 1, 1, 3]; expected bool or u8 [B or 1, H or 1, m or 1, n]");
  refused(toy("global").with("allowed", Tensor::full({1, 1, 2, 3}, 1, DType::u8)),
          "--method 'global': attention: 'allowed' is u8 [1, 1, 2, 3]; expected bool or u8 [1, 1, 3, 3], where all but "
          "the last may be 1");
  const Tensor two = Tensor::from(std::vector<std::int64_t>{1, 1}, {1, 2}),
               apart = Tensor::from(std::vector<std::int64_t>{1, 2, 1}, {1, 3});
  refused(toy("global").with("documents", two),
          "in.safetensors: 'documents' is i64 [1, 2]; expected i32 or i64 [1, 3], the number of each token's document");
  refused(toy("global").with("documents", {1, 1, 1}, {1, 3}),
          "in.safetensors: 'documents' is f64 [1, 3]; expected i32 or i64 [1, 3], the number of each token's document");
  refused(toy("global").with("documents", apart),
          "--method 'global': attention: document 1 of row 0 has tokens in two places; those of one document must be "
          "neighbours");
  refused(toy("global").with("documents", apart).flags({"--place", "cross"}),
          "in.safetensors: 'documents' needs self-attention over whole rows: as many queries as keys, without "
          "query_offset");
  for (const char* gradients : {"--gradients", "--no-gradients"})
    refused(toy("global").with("cotangent", {1}, {1}).flags({gradients}),
            "in.safetensors: 'cotangent' is f64 [1]; expected [1, 3, 2], the shape of the output");
  refused(toy("relative").flags({"--place", "cross"}),
          "--method 'relative': relative: queries and keys must be tokens of one sequence, so it is not defined in "
          "cross-attention");
  refused(toy("global").flags({"--place", "decoder"}),
          "--place decoder: a decoder's self-attention is causal; add --causal, or give --place encoder");
  refused(toy("global").flags({"--place", "encoder", "--causal"}),
          "--place encoder: an encoder's self-attention is not causal; leave out --causal, or give --place decoder");
  refused(toy("global").flags({"--place", "cross", "--causal"}),
          "--place cross: cross-attention is not causal; leave out --causal, or give --place decoder");
  // A build or machine without a GPU refuses the device first.
  for (const char* device : cuda_is_available() ? std::vector{"cuda", "cuda:0"} : std::vector<const char*>{})
    refused(toy("global").flags({"--engine", "fused", "--device", device}),
            "--engine fused: this engine computes on the CPU only; with --device cuda choose fastest, blockwise or "
            "composed");
  refused(toy("global").flags({"--heads", "3"}),
          "--method 'global', --heads 3: attention: 3 heads do not divide the width of the model, 2");
  refused(Attend("global").flags({"--shape", "1,2,3"}), "--shape: expected four sizes B,m,n,d, each at least 1");
  refused(Attend("global").flags({"--in", "/nowhere"}), "/nowhere: cannot be read: No such file or directory");

  Folder folder;
  std::ofstream(folder / "broken") << "not a file of tensors";
  std::string in = folder / "broken";
  const char* arguments[] = {"attend", "--in", in.c_str()};
  int status = status_in_child([&] {
    if (!std::freopen("/dev/null", "w", stderr)) return 99;
    return run("attend", 3, arguments, attend_program);
  });
  BOOST_TEST(status == 2);
}

BOOST_AUTO_TEST_CASE(every_method_is_listed_and_described) {
  std::string list = attention_table().text();
  for (const MethodEntry& entry : registered_methods()) {
    std::string name = entry.card.name, formula = entry.card.formula,
                text = describe_attention(name, {.model_dim = 8, .heads = 1});
    BOOST_TEST(contains(list, "\n" + name + " "));
    for (const OptionDescription& option : describe_options(entry))
      BOOST_TEST(contains(text, "\n" + option.name + " "));
    for (const std::string& part : {formula.substr(0, formula.find('\n')), std::string("where: "),
                                    std::string("query.weight "), std::string("\noutput ")})
      BOOST_TEST(contains(text, part), name << ": " << part);
  }
  std::string flexible = describe_attention("classic(additive(hidden=5)+flexible)", {.model_dim = 8, .heads = 1});
  for (const char* part : {"[d_q, 5]", "[d_q + d_e, d_q]", "where: cross;", "previous_focus", "step_input"})
    BOOST_TEST(contains(flexible, part), part);
  BOOST_TEST(contains(describe_attention("man", {}), "needed"));
  std::string mixed = describe_attention("concat(multi_head(gaussian), multi_head(dot, output=false)*2, mean, width=3)",
                                         {.model_dim = 8});
  for (const char* part :
       {"\nmulti_head: ", "\ngaussian: ", "\noutput  true ", "\nhead_1.key.weight ",
        "\nhead_1.gaussian.center.bias    [H] ", "\noutput.weight                  [4 d, 3] ",
        "\noutput         [B, m, 3] ", "\nweights        [B, 3 H + 1, m, n] ", "\nhead_1.center ", "\nhead_3.scores "})
    BOOST_TEST(contains(mixed, part), part << " is not in\n" << mixed);
  BOOST_TEST(contains(describe_attention("multi_head", {}), "\noutput   [B, m, d] "));
}

BOOST_AUTO_TEST_CASE(the_description_of_a_long_specification_is_short) {
  const std::string described = describe_attention("concat(gaussian*50, general*70, dot, width=3)", {.model_dim = 8});
  BOOST_TEST(std::count(described.begin(), described.end(), '\n') < 250, described);
  for (const char* part : {"\nhead_1.gaussian.center.bias ", " more", "\nhead_120.general.weight ", "\noutput.weight "})
    BOOST_TEST(contains(described, part), part << " is not in\n" << described);
}

BOOST_AUTO_TEST_CASE(a_description_holds_for_one_head_and_for_many) {
  const std::string note = ": with one head, the dimension H is absent\n";
  auto described = [](const char* method) { return describe_attention(method, {.model_dim = 8, .heads = 1}); };
  for (const char* method : {"additive", "general", "local_p", "flexible"})
    BOOST_TEST(contains(described(method), "\n[H, ...]" + note), method);
  for (const char* method : {"persistent", "talking_heads", "light_convolution", "gaussian"})
    BOOST_TEST(!contains(described(method), note), method);
  BOOST_TEST(contains(described("persistent + general"), "\ngeneral.weight" + note));
  BOOST_TEST(contains(described("grouped"), "\nvalue.weight   [d_v, d / 2] "));
}

BOOST_AUTO_TEST_CASE(a_description_says_why_an_attention_cannot_run) {
  auto described = [](const char* method) { return describe_attention(method, {.model_dim = 8, .heads = 1}); };
  BOOST_TEST(
      contains(described("dot + general"), "\nwhere: nowhere\n  not encoder, decoder, cross: attention: two methods"));
  BOOST_TEST(contains(described("fine_grained + flexible"), "\nwhere: nowhere\n  not cross: flexible: "));
  BOOST_TEST(!contains(described("location"), "\ndocuments "));  // refused there
  BOOST_TEST(!contains(described("flexible"), "\ndocuments "));  // in cross-attention only
  BOOST_TEST(!contains(described("flexible"), "only with --causal"));
}

BOOST_AUTO_TEST_CASE(a_run_writes_the_names_and_shapes_that_its_description_has) {
  std::vector<std::string> methods = test::all_specifications();
  for (const std::string& method : methods_and_options()) methods.push_back("classic(" + method + ")");
  for (const char* method :
       {"dman+sman", "man+dman", "man+sman+dman", "sman(width=fixed,distance=100)", "sliding+local_m+adaptive_span",
        "heads(dman*1, sman*1)", "average(dot*2, laplace)", "average(dot, mean, head_input=split)",
        "average(additive+gaussian(window=layer), local_m)", "average(fine_grained, general, head_input=split)",
        "concat(dot*2)", "concat(additive, local_p+general, width=5)", "concat(dot, mean, linear=false)",
        "concat(general, mean, head_input=split)", "concat(additive*2, linear=false, head_input=split)",
        "average(concat(general, mean, width=5), concat(sman, mean, width=5))", "multi_head(gaussian)",
        "average(multi_head(global), multi_head(sman+window))", "concat(multi_head(additive, output=false)*2, mean)"})
    methods.emplace_back(method);
  const std::pair<Place, const char*> places[] = {
      {Place::encoder, "encoder"}, {Place::decoder, "decoder"}, {Place::cross, "cross"}};
  for (const std::string& method : methods) {
    std::string description;
    try {
      description = describe_attention(method, {.model_dim = 6, .heads = 2});
    } catch (const Error&) {
      BOOST_TEST(method.starts_with("classic("), method);
      continue;
    }
    const std::size_t where = description.find("\nwhere: ") + 1;
    const std::string defined = description.substr(where, description.find(';', where) - where);
    for (auto [place, name] : places)
      for (bool lengths : {false, true}) BOOST_TEST_CONTEXT(method << ", " << name << (lengths ? ", lengths" : "")) {
          auto run = run_in_place(method, place, lengths);
          BOOST_TEST(run.has_value() == contains(defined, name));
          if (!run) continue;
          const Results promised = promised_results(description, run->sizes);
          BOOST_TEST(promised.size() == run->results.size());
          for (std::size_t k = 0; k < std::min(promised.size(), run->results.size()); ++k)
            BOOST_TEST(promised[k].first + " " + promised[k].second ==
                       run->results[k].first + " " + run->results[k].second);
        }
  }
}

BOOST_AUTO_TEST_CASE(a_description_says_which_options_change_the_results) {
  int changed = 0;
  for (const MethodEntry& entry : registered_methods()) {
    const std::string name = entry.card.name, description = describe_attention(name, {.model_dim = 6, .heads = 2});
    test::Alternatives alternatives;
    entry.configure(alternatives);
    for (const std::string& option : alternatives.found)
      for (Place place : {Place::encoder, Place::decoder, Place::cross}) {
        auto run = run_in_place(fmt::format("{}({})", name, option), place, false);
        if (!run) continue;
        Results promised = promised_results(description, run->sizes, option);
        changed += promised != promised_results(description, run->sizes);
        std::sort(promised.begin(), promised.end());
        std::sort(run->results.begin(), run->results.end());
        BOOST_TEST((promised == run->results), name << "(" << option << ")");
      }
  }
  BOOST_TEST(changed > 0);
}

BOOST_AUTO_TEST_CASE(what_has_no_fused_form_is_listed) {
  const std::string list = attention_table().text();
  int not_fused = 0;
  for (const MethodEntry& entry : registered_methods()) {
    const std::string name = entry.card.name, row = list.substr(list.find("\n" + name + " ") + 1);
    const std::string engines = row.substr(0, row.find('\n')) + "\n";
    test::Alternatives alternatives;
    entry.configure(alternatives);
    for (const std::string& option : alternatives.found) {
      const bool listed = contains(engines, " " + option + ")") || contains(engines, " " + option + ",") ||
                          contains(engines, "no fused form: ");
      not_fused += listed;
      for (Place place : {Place::encoder, Place::decoder, Place::cross}) {
        auto runs = [&, method = fmt::format("{}({})", name, option)](AttentionEngine engine) {
          return run_in_place(method, place, false, engine).has_value();
        };
        if (runs(AttentionEngine::composed))
          BOOST_TEST(runs(AttentionEngine::fused) == !listed, name << "(" << option << "): " << engines);
      }
    }
  }
  BOOST_TEST(not_fused > 0);
  BOOST_TEST(contains(list, " engines (fused: on the CPU only)\n"));
  for (const std::string& text : {list, describe_attention("window", {.model_dim = 8, .heads = 1})})
    BOOST_TEST(contains(text, "fused (not with mask=discrete), blockwise, composed\n"));
  BOOST_TEST(contains(describe_attention("sliding", {.model_dim = 8, .heads = 1}),
                      "engines: fused (not with dilation > 1), blockwise, composed\n  fused: on the CPU only; "));
  BOOST_TEST(contains(list, " blockwise, composed (no fused form: mixing of heads)\n"));
  const std::string window = describe_attention("window", {.model_dim = 8, .heads = 1});
  BOOST_TEST(contains(window, "or distributions over the keys; with pointers=given\n"));
  BOOST_TEST(contains(window, "not with pointers=given\n"));
  const std::string grid = describe_attention("relative_2d", {.model_dim = 8, .heads = 1});
  BOOST_TEST(contains(grid, "row and column of each token"));
  for (const std::string& text : {window, grid}) BOOST_TEST(contains(text, "\ndocuments "));
}

BOOST_AUTO_TEST_CASE(the_readme_has_every_method_as_the_catalogue_has_it) {
  std::string readme = contents("attention/README.md");
  auto check_row = [&](const MethodCard& card) {
    std::string row = fmt::format("\n| `{}` | {} | {} |", card.name, card.summary, card.reference);
    BOOST_TEST(contains(readme, row), "attention/README.md has no row" << row);
  };
  for (const MethodEntry& entry : registered_methods()) check_row(entry.card);
  for (const Combination& entry : combinations()) check_row(entry.card);
}

BOOST_AUTO_TEST_SUITE_END()
