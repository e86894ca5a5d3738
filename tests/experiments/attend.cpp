// The program attend: the worked examples of every method from files, and what it refuses.
#include "attention/engine/attend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

#include <boost/test/unit_test.hpp>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/attend/attend.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/attend/attention_catalogue.h"
#include "experiments/support/program/program.h"
#include "tests/attention/attentions.h"
#include "tests/experiments/programs.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Values = std::vector<double>;

/// A file of inputs, the program's flags, and the file that it writes.
class Attend {
 public:
  explicit Attend(const std::string& method) : arguments_{"attend", "--method", method, "--precision", "f64"} {}
  const std::string& method() const { return arguments_[2]; }

  Attend& with(const std::string& name, const Values& values, const Shape& shape) {
    return with(name, Tensor::from(values, shape));
  }
  Attend& with(const std::string& name, const Tensor& tensor) {
    std::erase_if(given_, [&](const auto& known) { return known.first == name; });
    given_.emplace_back(name, tensor);
    return *this;
  }
  Attend& lengths(const std::vector<std::int32_t>& lengths) {
    return with("lengths", Tensor::from(lengths, {std::int64_t(lengths.size())}));
  }
  Attend& offset(std::int64_t at) { return with("query_offset", Tensor::from(std::vector<std::int64_t>{at}, {1})); }
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
    all.insert(all.end(), {"--out", folder / "out.safetensors"});
    if (std::ranges::count(all, "--rows") == 0) all.emplace_back("--weights");
    std::vector<const char*> pointers;
    for (const std::string& argument : all) pointers.push_back(argument.c_str());
    std::string message;
    try {
      Cli cli("attend", int(pointers.size()), pointers.data());
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

/// h_0, ..., h_3 and s of the slides.
Attend slide(const std::string& method) {
  return Attend(method).with("query", {0.5, 1}, {1, 1, 2}).with("key", {1, 0, 0, 1, 1, 1, 0.5, -0.5}, {1, 4, 2});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attend)

// The worked examples of every method are tested with the methods (tests/attention). Here every kind of input,
// parameter and flag reaches the attention, and its quantities come back.
BOOST_AUTO_TEST_CASE(inputs_parameters_and_quantities_are_those_of_the_attention) {
  const Values plain{0.37007, 0.259859, 0.37007, 0.276435, 0.329888, 0.393677, 0.306552, 0.256881, 0.436567},
      causal{1, 0, 0, 0.455921, 0.544079, 0, 0.306552, 0.256881, 0.436567},
      two_keys{0.587479, 0.412521, 0, 0.455921, 0.544079, 0, 0.544079, 0.455921, 0},
      near{0.587479, 0.412521, 0, 0.276435, 0.329888, 0.393677, 0, 0.37044, 0.62956},
      packed{0.587479, 0.412521, 0, 0.455921, 0.544079, 0, 0, 0, 1};
  const Tensor band = Tensor::of({1, 1, 0, 1, 1, 1, 0, 1, 1}, {1, 1, 3, 3}).to(DType::boolean);
  const Tensor documents = Tensor::from(std::vector<std::int32_t>{4, 4, 7}, {1, 3});  // the third token is alone
  const Tensor left = Tensor::from(std::vector<std::int64_t>{0, 1, 2}, {1, 1, 3}),
               right = Tensor::from(std::vector<std::int32_t>{1, 1, 2}, {1, 1, 3});
  const Tensor grid = Tensor::from(std::vector<std::int64_t>{0, 0, 0, 1, 1, 0}, {3, 2});
  const Attend gaussian = toy("gaussian")
                              .with("gaussian.hidden.weight", {0.5, 0, 0, -0.5}, {2, 2})
                              .with("gaussian.center.weight", {1, 1}, {2, 1})
                              .with("gaussian.width.weight", {-1, 0.5}, {2, 1});
  const Attend between =
      toy("window(pointers=given,mask=exact)").with("left_pointer", left).with("right_pointer", right);
  // the key in the row behind has 9 q_0 / sqrt(2) more: only query 0 and 1 have one, and only query 0 has q_0 = 1
  const Attend image = toy("relative_2d(clip=1)")
                           .with("grid", grid)
                           .with("relative_2d.rows", {0, 0, 0, 0, 9, 0}, {3, 2})
                           .with("relative_2d.columns", {0, 0, 0, 0, 0, 0}, {3, 2});
  const Attend cross = toy("global").with("key", {1, 0, 0, 1, 1, 1}, {1, 3, 2}).flags({"--place", "cross"});
  const Attend general = slide("classic(general)").with("general.weight", {1, 0.5, 0, 1}, {2, 2});
  const Attend focused = Attend("classic(location(longest=8)+flexible(threshold=1.2))")
                             .with("query", {1}, {1, 1, 1})
                             .with("key", {1, 2, 3, 4, 5, 6, 7, 8}, {1, 8, 1})
                             .with("previous_focus", {2.25}, {1})
                             .with("location.weight", {0.2, 1, 0.5, 2, 0.1, -0.3, 0.8, 0}, {1, 8})
                             .with("flexible.gate_projection", {0}, {1, 1})
                             .with("flexible.gate_vector", {0}, {1})
                             .with("flexible.gate_bias", {std::log(0.6 / 0.4)}, {1});
  const Attend gate = Attend("classic(dot+flexible)")
                          .with("query", {0.5, -1}, {1, 1, 2})
                          .with("key", {1, 2, 3, 4}, {1, 2, 2})
                          .with("step_input", {0.2, 0.4, -0.6}, {1, 1, 3})
                          .with("flexible.gate_projection", {0.3, 0, -0.2, 0.4, 0.1, -0.3, 0.5, 0.2, 0, 0.6}, {5, 2})
                          .with("flexible.gate_vector", {1.5, -1}, {2})
                          .with("flexible.gate_bias", {0.25}, {1});
  struct Row {
    Attend attend;
    const char* name;
    Values expected;
  };
  for (Row& row : std::vector<Row>{
           {toy("global"), "weights", plain},
           {toy("global"), "output", {1.37007, 0.62993, 1.393677, 0.723565, 1.436567, 0.693448}},
           {toy("global").flags({"--place", "decoder"}), "weights", causal},
           {toy("global").lengths({2}), "weights", two_keys},
           {cross, "weights", plain},
           {toy("global").with("allowed", band), "weights", near},
           {toy("global").with("allowed", band.to(DType::u8)), "allowed", {1, 1, 0, 1, 1, 1, 0, 1, 1}},
           {toy("man").with("mask", band), "weights", near},
           {toy("global").with("documents", documents), "weights", packed},
           {toy("global").with("documents", documents), "documents", {4, 4, 7}},
           {between, "window", {1, 1, 0, 0, 1, 0, 0, 0, 1}},
           {between, "left_pointer", {0, 1, 2}},
           {image, "weights", {0.001717, 0.001206, 0.997077, 0.276435, 0.329888, 0.393677}},
           {gaussian, "width", {1.259451, 1.50827, 1.173641}},
           {gaussian, "output", {1.368206, 0.882831, 1.218401, 0.764599, 1.311479, 0.883311}},
           {slide("classic(laplace)").offset(1), "weights", {0.18394, 0.5, 0.18394, 0.067668}},
           {slide("classic(gaussian_location(normalize=true))").offset(1).lengths({3}),
            "weights",
            {0.274069, 0.451863, 0.274069, 0}},
           {general, "scores", {0.5, 1.25, 1.75, -0.375}},
           {slide("average(dot, gaussian_location(normalize=true))").offset(1), "output", {0.611285, 0.681345}},
           {focused, "focus", {2.461248}},
           {Attend(focused).flags({"--gradients"}), "range", {0, 5}},
           {gate, "gate", {0.839186}}}) {
    const Values found = row.attend.run().values(row.name);
    BOOST_TEST_CONTEXT(row.name << " of " << row.attend.method()) check(found, row.expected);
  }
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

// Every optional input is read by those methods, and with those options, whose cards declare it: with other values of
// the input, the output is another one.
BOOST_AUTO_TEST_CASE(methods_read_the_inputs_that_their_cards_declare) {
  int declared = 0;
  std::vector<std::string> methods;
  for (const MethodEntry& entry : registered_methods())
    for (const std::string& method : test::specifications_of(entry)) methods.push_back(method);
  for (const std::string& method : methods)
    for (Place place : {Place::encoder, Place::decoder, Place::cross}) {
      auto output = [&](const std::string& changed) -> std::optional<Values> {
        const std::int64_t m = 4, n = place == Place::cross ? 6 : m;
        const auto value = [&](const char* name, double usual, double other) {
          return name == changed ? other : usual;
        };
        Generator generator(5);
        const Variable query = test::random_tensor({2, m, 6}, generator),
                       key = place == Place::cross ? Variable(test::random_tensor({2, n, 6}, generator)) : query;
        AttentionInput in{.query = query, .key = key, .value = key, .causal = place == Place::decoder};
        Tensor mask = Tensor::full({1, 1, m, n}, value("mask", 0.5, 1), DType::f64);
        mask.slice(3, 0, 1).fill(0.25);  // equal factors would change nothing
        in.mask = mask;
        in.left_pointer = Tensor::full({1, 1, 1}, value("left_pointer", 0, 2), DType::i64);
        in.right_pointer = Tensor::full({1, 1, 1}, value("right_pointer", 3, 1), DType::i64);
        std::vector<std::int64_t> grid;
        for (std::int64_t t = 0; t < n; ++t) grid.insert(grid.end(), {changed == "grid" ? t : 0, t});
        if (place != Place::cross) in.grid = Tensor::from(grid, {n, 2});
        in.step_input = Tensor::full({2, m, 3}, value("step_input", 0.5, 2), DType::f64);
        in.previous_focus = Tensor::full({2}, value("previous_focus", 1, 3), DType::f64);
        try {
          const auto attention = attention_factory(method)({.model_dim = 6, .heads = 2, .place = place, .step_dim = 3});
          attention->to(DType::f64);
          attention->initialise(1);
          attention->train(false);
          return attention->forward(in).value().to_vector<double>();
        } catch (const Error&) {
          return std::nullopt;
        }
      };
      const auto usual = output("");
      if (!usual) continue;
      const std::vector<ReadInput> inputs = inputs_of(method);
      for (const char* name : {"mask", "left_pointer", "right_pointer", "grid", "step_input", "previous_focus"}) {
        const auto other = output(name);
        const bool reads = other && *other != *usual,
                   says = std::ranges::any_of(inputs, [&](auto&input) { return input.name == name && input.always; });
        declared += says;
        BOOST_TEST(reads == says, method << ", place " << int(place) << ": " << name);
      }
    }
  BOOST_TEST(declared > 6);
}

BOOST_AUTO_TEST_CASE(a_parameter_of_one_head_may_have_the_dimension_of_heads) {
  auto general = [](const Shape& shape) {
    return slide("general").with("general.weight", {1, 0.5, 0, 1}, shape).run().values("output");
  };
  check(general({1, 2, 2}), general({2, 2}), 1e-15);
}

BOOST_AUTO_TEST_CASE(printed_ranges_are_enforced) {
  for (const MethodEntry& entry : registered_methods())
    for (const OptionDescription& option : describe_options(entry)) {
      const std::size_t to = option.values.find(" to ");
      if (to == std::string::npos) continue;
      const double lowest = std::stod(option.values), highest = std::stod(option.values.substr(to + 4));
      auto refusal = [&](double value) {
        const std::string method = fmt::format("{}({}={})", entry.card.name, option.name, value);
        return message_of([&] { attention_factory(method)({.model_dim = 8, .heads = 1, .place = Place::cross}); });
      };
      BOOST_TEST(contains(refusal(lowest - 1), "use a"), entry.card.name << " " << option.name);
      if (std::isfinite(highest)) BOOST_TEST(contains(refusal(highest + 1), "use a"), entry.card.name << option.name);
      BOOST_TEST(!contains(refusal(lowest), "use a"), entry.card.name << " " << option.name);
    }
}

// A result may be called as an input is: what attend wrote for another method is not taken for it.
BOOST_AUTO_TEST_CASE(what_was_random_is_written_and_gives_the_same_again) {
  for (const char* method : {"relative(clip=2)+dman(clip=2)", "sman", "dman", "man+sman"}) {
    AttentionCase options{.method = method, .heads = 2, .gradients = true, .weights = true, .seed = 4};
    Safetensors file;
    if (contains(method, "man+sman")) file.tensors.emplace_back("mask", Tensor::full({1, 1, 1, 6}, 0.5, DType::f32));
    const CaseTensors first = attend_case(options, file);
    options.seed = 99;
    const auto values = [](const CaseTensors& tensors) {
      std::vector<std::pair<std::string, Values>> all;
      for (const auto& [name, tensor] : tensors) all.emplace_back(name, tensor.to_vector<double>());
      return all;
    };
    BOOST_TEST((values(attend_case(options, file)) != values(first)));
    file.tensors = first;  // results too: made anew
    for (const auto& [name, gradient] : first)
      if (name.starts_with("grad.")) BOOST_TEST((gradient.shape() == file.at(name.substr(5)).shape()), name);
    BOOST_TEST((values(attend_case(options, file)) == values(first)), method);
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

BOOST_AUTO_TEST_CASE(row_quantities_are_those_of_the_weights) {
  const Values weights = toy("global").lengths({2}).run().values("weights");
  for (const char* engine : {"composed", "blockwise", "fused"}) {
    const Attend rows = toy("global").lengths({2}).flags({"--engine", engine, "--rows"}).run();
    BOOST_TEST(!rows.result().find("weights"));
    check(rows.values("rows.key"), {0, 1, 0});
    const Values maximum = rows.values("rows.maximum"), logsumexp = rows.values("rows.logsumexp"),
                 entropy = rows.values("rows.entropy"), mass = rows.values("rows.key_mass");
    for (std::size_t i = 0; i < 3; ++i) {
      const double p = weights[3 * i], q = weights[3 * i + 1];
      check({std::exp(maximum[i] - logsumexp[i])}, {std::max(p, q)}, 1e-12);
      check({entropy[i]}, {-p * std::log(p) - q * std::log(q)}, 1e-12);
    }
    check(mass, {weights[0] + weights[3] + weights[6], weights[1] + weights[4] + weights[7], 0}, 1e-12);
  }
}

// The logits of the first query are 1 and 0, those of the third 1 and 1; the third key is padding.
BOOST_AUTO_TEST_CASE(row_quantities_are_printed_as_tables_of_queries_and_keys) {
  Folder folder;
  write_safetensors(folder / "in.safetensors", {{"query", Tensor::of({1, 0, 0, 1, 1, 1}, {1, 3, 2})},
                                                {"lengths", Tensor::from(std::vector<std::int32_t>{2}, {1})}});
  const auto run = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all{"--method", "classic(dot)", "--in", folder / "in.safetensors"};
    all.insert(all.end(), flags.begin(), flags.end());
    return ended("attend", all);
  };
  BOOST_TEST(run({"--rows", "--head", "1"}).out ==
             "sentence  head  query  key  maximum  logsumexp  entropy\n"
             "───────────────────────────────────────────────────────\n"
             "       1     1      0    0   1.0000     1.3133   0.5822\n"
             "       1     1      1    1   1.0000     1.3133   0.5822\n"
             "       1     1      2    0   1.0000     1.6931   0.6931\n"
             "\n"
             "sentence  head  key  key_mass\n"
             "─────────────────────────────\n"
             "       1     1    0    1.5000\n"
             "       1     1    1    1.5000\n"
             "       1     1    2    0.0000\n");
  for (const auto& [flags, message] :
       {std::pair(std::vector<std::string>{"--rows", "--head", "2"},
                  std::string("attend: --head 2: expected the number of a head, 1 to 1\n")),
        {{"--head", "1"}, "attend: --head 1 chooses a head of the tables that --rows prints without --out\n"},
        {{"--head", "1", "--compile", "global"},
         "attend: --head 1 chooses a head of the tables that --rows prints without --out\n"},
        {{"--out", "x.npy"}, "attend: --out x.npy: expected a file name that ends in .safetensors\n"},
        {{"--out", (folder / "in.safetensors").string()},
         "attend: --out " + (folder / "in.safetensors").string() + ": is the file of --in; it would be replaced\n"},
        {{"--architecture", "sm_80"}, "attend: --architecture: only with --compile\n"},
        {{"--list"}, "attend: --method has no effect beside --list, which prints all methods\n"},
        {{"--rows", "--gradients"}, "attend: --rows prints no gradients: give --out FILE beside --gradients\n"},
        {{"--rows", "--weights"},
         "attend: --rows leaves out the weights that --weights writes; give one of the two\n"}}) {
    const Ended wrong = run(flags);
    BOOST_TEST(wrong.status == 2);
    BOOST_TEST(wrong.out.empty());
    BOOST_TEST(wrong.err == message);
  }
}

BOOST_AUTO_TEST_CASE(the_last_query_of_a_causal_attention_is_at_the_last_key) {
  Attend whole = Attend("alibi").flags({"--shape", "1,5,5,4", "--place", "decoder"}).run();
  Attend last = Attend("alibi").flags({"--place", "decoder"}).with("key", whole.result().at("query"));
  last.with("query", whole.result().at("query").slice(1, 3, 5)).run();
  Values expected = whole.values("output"), tail(expected.end() - 8, expected.end());
  check(last.values("output"), tail, 1e-12);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_in_one_line) {
  auto refused = [](Attend attend, const std::string& message) { BOOST_TEST(attend.refusal() == message); };
  const Tensor two = Tensor::from(std::vector<std::int64_t>{1, 1}, {1, 2}),
               apart = Tensor::from(std::vector<std::int64_t>{1, 2, 1}, {1, 3});
  const std::string states =
      "; expected f32, f64 or bf16 [B, tokens, width], at least one token and a width of at least 1";
  const std::string known = "; it has query, key, value, lengths, allowed, documents, query_offset, cotangent, ",
                    weights =
                        "query.weight, query.bias, key.weight, key.bias, value.weight, value.bias, "
                        "output.weight, output.bias";
  struct Mistake {
    Attend attend;
    std::string message;
  };
  for (const auto& [attend, message] : std::vector<Mistake>{
           {toy("gausian"), "--method: 'gausian': no method 'gausian' (column 1); did you mean 'gaussian'?"},
           {toy("global").with("query.wieght", {1}, {1}),
            "in.safetensors: global has no input or parameter 'query.wieght'; did you mean 'query.weight'?"},
           {toy("global").with("mask", {1, 1, 1}, {1, 1, 1, 3}),  // which only some methods read
            "in.safetensors: global has no input or parameter 'mask'" + known + weights},
           {toy("global").with("query", {1, 2}, {1, 2}), "in.safetensors: 'query' is f64 [1, 2]" + states},
           {toy("global").with("query", Tensor::arange(6, DType::i32).reshape({1, 3, 2})),
            "in.safetensors: 'query' is i32 [1, 3, 2]" + states},
           {Attend("global").with("query", {}, {1, 0, 2}), "in.safetensors: 'query' is f64 [1, 0, 2]" + states},
           {Attend("global").with("query", {}, {1, 3, 0}), "in.safetensors: 'query' is f64 [1, 3, 0]" + states},
           {toy("global").with("query.weight", {1, 2}, {2, 1}),
            "in.safetensors: 'query.weight' is f64 [2, 1]; expected f32, f64 or bf16 [2, 2]"},
           {toy("global").with("key", {1, 2}, {1, 1, 2}).with("value", {1, 2, 3, 4}, {1, 2, 2}),
            "--method 'global': attention: query [1, 3, 2], key [1, 1, 2], value [1, 2, 2]; expected [B, I, 2], [B, J, "
            "2] and [B, J, 2]"},
           {toy("global").lengths({4}),
            "--method 'global': attention: the key length at [0] of [1] is 4; it must be in 0 to 3"},
           {toy("global").lengths({3, 3}),
            "--method 'global': attention: there are 2 key lengths for 1 sentences; expected one for each"},
           {toy("global").with("lengths", {3}, {1}), "in.safetensors: 'lengths' is f64 [1]; expected i32 or i64"},
           {toy("global").with("lengths", Tensor::full({1}, 1, DType::u8)),
            "in.safetensors: 'lengths' is u8 [1]; expected i32 or i64"},
           {toy("global").with("cotangent", Tensor::full({1, 3, 2}, 1, DType::i64)).flags({"--gradients"}),
            "in.safetensors: 'cotangent' is i64 [1, 3, 2]; expected floating-point numbers [1, 3, 2], the shape of the "
            "output"},
           {toy("global").offset(-1),
            "--method 'global': attention: the first query is at position -1 (query_offset); it must be in 0 to "
            "1073741824 in f64"},
           {toy("global").offset(1073741825),
            "--method 'global': attention: the first query is at position 1073741825 (query_offset); it must be in 0 "
            "to 1073741824 in f64"},
           {Attend("global").with("key", {1, 2}, {1, 1, 2}),
            "in.safetensors: there is a 'key' or 'value', but no 'query'"},
           {toy("man"),
            "--method 'man': man: there is no mask; give one with the input, [B, H, I, J] with values in [0, 1]"},
           {toy("man").with("mask", {1, 1, 1, 1}, {1, 1, 2, 2}),
            "--method 'man': attention: the mask is [1, 1, 2, 2]; expected [1, 1, 3, 3], where all but the last may be "
            "1"},
           {toy("global").with("allowed", Tensor::full({1, 1, 2, 3}, 1, DType::u8)),
            "--method 'global': attention: 'allowed' is u8 [1, 1, 2, 3]; expected bool or u8 [1, 1, 3, 3], where all "
            "but the last may be 1"},
           {toy("global").with("documents", two),
            "--method 'global': attention: the documents are i64 [1, 2] on cpu; expected the number of each token's "
            "document, i32 or i64 [1, 3] on the CPU"},
           {toy("global").with("documents", apart).flags({"--place", "cross"}),
            "--method 'global': attention: documents need self-attention over whole rows, without a decoder's memory"},
           {toy("global").with("cotangent", {1}, {1}),
            "in.safetensors: 'cotangent' is f64 [1]; expected floating-point numbers [1, 3, 2], the shape of the "
            "output"},
           {toy("relative").flags({"--place", "cross"}),
            "--method 'relative': relative: queries and keys must be tokens of one sequence, so it is not defined in "
            "cross-attention"},
           {toy("global").flags({"--heads", "3"}),
            "--method 'global', --heads 3: attention: 3 heads do not divide the width of the model, 2"},
           {Attend("global").flags({"--shape", "1,2,3"}), "--shape: expected four sizes B,I,J,d, each at least 1"},
           {Attend("global").flags({"--in", "/nowhere"}), "/nowhere: cannot be read: No such file or directory"}})
    refused(attend, message);
  refused(toy("global").flags({"--compile", "global", "--architecture", "nine"}),
          "--architecture 'nine': expected sm_80, sm_90 or another architecture of GPUs");
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

BOOST_AUTO_TEST_CASE(descriptions_say_what_a_user_has_to_know) {
  std::map<std::string, std::string> fused;
  for (const Json& row : attention_table().json()) fused[row.at("name")] = row.at("fused engine");
  BOOST_TEST(std::count_if(fused.begin(), fused.end(), [](const auto& row) {
               return contains(row.second, "no: ") || contains(row.second, "not on a GPU");
             }) <= 6);
  for (const MethodEntry& entry : registered_methods()) {
    const std::string name = entry.card.name, formula = entry.card.formula,
                      text = describe_attention(name, {.model_dim = 8, .heads = 1});
    BOOST_TEST((fused.at(name) == "yes") == !contains(text, "not fused"), name);
    for (const OptionDescription& option : describe_options(entry))
      BOOST_TEST((contains(text, "\n" + option.name + " ") && contains(text, "  " + option.values)), option.name);
    for (const std::string& part : {formula.substr(0, formula.find('\n')), std::string("\nwhere: "),
                                    std::string("\nquery.weight "), std::string("\noutput ")})
      BOOST_TEST(contains(text, part), name << ": " << part);
  }
  struct Case {
    std::string method;
    std::vector<std::string> has, lacks = {};
  };
  for (const auto& [method, has, lacks] : std::vector<Case>{
           {"classic(additive(hidden=5)+flexible)", {"[8, 5]", "where: cross\n", "previous_focus", "step_input"}},
           {"man", {"needed"}},
           {"concat(multi_head(gaussian), multi_head(dot, output=false)*2, mean, width=3)",
            {"\nmulti_head: ", "\ngaussian: ", "\noutput  true ", "\nhead_1.key.weight ",
             "\nhead_1.gaussian.center.bias    [1] ", "\noutput.weight                  [32, 3] ",
             "\noutput                         [2, 17, 3] ", "\nweights                        [2, 4, 17, 19] ",
             "\nhead_1.center ", "\nhead_3.scores "}},
           {"multi_head", {"\noutput         [2, 17, 8] "}},
           {"talking_heads",
            {"\nengines: blockwise, composed\n  not fused on a CPU: mixing of heads\n  not fused on a GPU: mixing of "
             "heads\n"}},
           {"window(mask=discrete)",
            {"\nengines: blockwise, composed\n  not fused on a CPU: a window with mask=discrete\n"}},
           {"dot + general",
            {"\nwhere: nowhere\n  not encoder, decoder, cross: general beside dot: attention: two methods"},
            {"--heads"}},
           {"grouped(key_heads=2)", {"\nwhere: nowhere\n", "\nIt is defined with more heads, such as --heads 8."}},
           {"window", {"; with pointers=given\n", "\nengines: fused"}},
           {"global", {}, {"pointer", "grid", "mask"}},
           {"relative_2d", {"row and column of each token", "\n  not cross: "}}}) {
    std::string text = describe_attention(method, {.model_dim = 8, .heads = 1});
    text = std::regex_replace(text, std::regex("\n {20,}"), " ");  // long texts are folded
    for (const std::string& part : has) BOOST_TEST(contains(text, part), part << " is not in\n" << text);
    for (const std::string& part : lacks) BOOST_TEST(!contains(text, part), part << " is in\n" << text);
  }
}

// Where a method is defined, and whether the fused engine computes it, are as described.
BOOST_AUTO_TEST_CASE(a_run_is_what_its_description_promises) {
  std::vector<std::string> methods = test::all_specifications();
  for (const char* method :
       {"classic(additive)", "heads(dman*1, sman*1)", "average(dot*2, laplace)",
        "average(fine_grained, general, head_input=split)", "concat(additive, local_p+general, width=5)",
        "concat(general, mean, head_input=split)", "average(multi_head(global), multi_head(sman+window))",
        "concat(multi_head(additive, output=false)*2, mean)"})
    methods.emplace_back(method);
  for (const std::string& method : methods) {
    const std::string description = describe_attention(method, {.model_dim = 6, .heads = 2});
    const std::size_t where = description.find("\nwhere: ") + 1;
    const std::string places = description.substr(where, description.find('\n', where) - where);
    const bool is_fused = !contains(description, "not fused on a CPU");
    for (auto [place, name] : {std::pair(Place::encoder, "encoder"), std::pair(Place::decoder, "decoder"),
                               std::pair(Place::cross, "cross")}) {
      const auto runs = [&, place = place](AttentionEngine engine) {
        AttentionCase options{.method = method, .heads = 2, .place = place, .engine = engine};
        options.shape = {3, 4, place == Place::cross ? 7 : 4, 6};
        Safetensors file;
        for (const ReadInput& input : inputs_of(method))
          if (input.name == "mask") file.tensors.emplace_back("mask", Tensor::full({1, 1, 1, options.shape[2]}, 0.5));
        return message_of([&] { attend_case(options, file); }) == "no error";
      };
      BOOST_TEST(runs(AttentionEngine::composed) == contains(places, name), method << ", " << name);
      if (contains(places, name)) BOOST_TEST(runs(AttentionEngine::fused) == is_fused, method << ", " << name);
    }
  }
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

BOOST_AUTO_TEST_CASE(the_description_of_a_formula_has_the_formula) {
  const std::string described =
      describe_attention("pointwise(\"z + t\", t=offset:3) + pointwise(\"z * j\")", {.model_dim = 8, .heads = 2});
  for (const char* part : {"\n  z + t\n", "\n  z * j\n", "\npointwise.t "})
    BOOST_TEST(contains(described, part), part << " is not in\n" << described);
}

BOOST_AUTO_TEST_CASE(the_description_of_a_long_specification_is_short) {
  const std::string described = describe_attention("concat(gaussian*50, general*70, dot, width=3)", {.model_dim = 8});
  BOOST_TEST(std::ranges::count(described, '\n') < 250, described);
  for (const char* part : {"\nhead_1.gaussian.center.bias ", " more", "\nhead_120.general.weight ", "\noutput.weight "})
    BOOST_TEST(contains(described, part), part << " is not in\n" << described);
}

BOOST_AUTO_TEST_SUITE_END()
