#include "experiments/support/attend/attend.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include <fmt/format.h>
#include <omp.h>

#include "attention/engine/tiles.h"
#include "attention/language/formula_text.h"
#include "attention/language/specification.h"
#include "attention/properties/cases.h"
#include "attention/properties/property.h"
#include "attention/registry.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/attend/attention_catalogue.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/attention_view.h"
#include "experiments/support/text/words.h"
#include "tensor/cpu/threads.h"
#include "tensor/format/npy.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

/// One row for each tensor: name, type and shape, and its smallest, mean and largest number.
Table summary(const CaseTensors& tensors) {
  Table table({"name", "tensor", "smallest", "mean", "largest"});
  for (const auto& [name, tensor] : tensors) {
    std::vector<double> values = tensor.to_vector<double>();
    if (values.empty()) {
      table.row({name, tensor.describe(), {}, {}, {}});
      continue;
    }
    double smallest = values[0], largest = values[0], sum = 0;
    for (double value : values) smallest = std::min(smallest, value), largest = std::max(largest, value), sum += value;
    table.row({name, tensor.describe(), Cell::number(smallest, 4), Cell::number(sum / double(values.size()), 4),
               Cell::number(largest, 4)});
  }
  return table;
}

/// A row for each element of tensors [B, H, I or J], or [B, H, I or J, D] with weights for each dimension of the
/// values. `position` is the heading of n. `head`, counted from 1, is the only one of the table; 0: all are.
Table row_table(const CaseTensors& tensors, const std::string& position, const std::vector<std::string>& names,
                int head) {
  std::vector<std::string> headings{"sentence", "head", position};
  std::vector<std::vector<double>> columns;
  Shape shape;
  for (const std::string& name : names) {
    const Tensor& tensor = std::ranges::find(tensors, name, &CaseTensors::value_type::first)->second;
    shape = tensor.shape();
    columns.push_back(tensor.to_vector<double>());
  }
  const bool has_dimensions = shape.rank() == 4;
  const std::int64_t D = has_dimensions ? shape[3] : 1, n = shape[2], H = shape[1];
  require(head <= H, "--head {}: expected the number of a head, 1 to {}", head, H);
  if (has_dimensions) headings.emplace_back("dimension");
  for (const std::string& name : names) headings.push_back(name.substr(name.find('.') + 1));
  Table table(headings);
  for (std::int64_t at = 0; at < shape.elements(); ++at) {
    const std::int64_t sentence = at / D / n / H + 1, h = at / D / n % H + 1;
    if (head > 0 && h != head) continue;
    std::vector<Cell> cells{sentence, h, at / D % n};
    if (has_dimensions) cells.emplace_back(at % D);
    for (std::size_t k = 0; k < names.size(); ++k) {
      const double number = columns[k][std::size_t(at)];
      const bool is_no_key = names[k] == "rows.key" && number < 0;  // -1
      cells.push_back(is_no_key ? Cell() : Cell::number(number, names[k] == "rows.key" ? 0 : 4));
    }
    table.row(std::move(cells));
  }
  return table;
}

/// The tables of --rows: one of queries and one of keys.
std::string row_tables(const CaseTensors& tensors, int head) {
  const std::vector<std::string> of_queries{"rows.key", "rows.maximum", "rows.logsumexp", "rows.entropy"};
  return row_table(tensors, "query", of_queries, head).text() + "\n" +
         row_table(tensors, "key", {"rows.key_mass"}, head).text();
}

/// Reads all files of --in: .safetensors files, and .npy files of one tensor each, which is called like its file.
Safetensors read_inputs(const std::vector<std::string>& files) {
  Safetensors all;
  for (const std::filesystem::path file : files) {
    Safetensors one{.source = file.string(), .tensors = {}, .metadata = {}};
    if (file.extension() == ".npy")
      one.tensors.emplace_back(file.stem().string(), read_npy(file).contiguous());
    else
      one = read_safetensors(file);
    all.source += (all.source.empty() ? "" : ", ") + one.source;
    for (auto& [name, tensor] : one.tensors) {
      require(!all.find(name), "--in: '{}' is in {} and in a file before it", name, one.source);
      all.tensors.emplace_back(name, std::move(tensor));
    }
  }
  return all;
}

/// The number of an architecture such as sm_90: 90. Throws Error for another text.
int architecture_of(const std::string& text) {
  const int value = text.starts_with("sm_") ? number<int>(text.substr(3)).value_or(0) : 0;
  require(value > 0, "--architecture '{}': expected sm_80, sm_90 or another architecture of GPUs", text);
  return value;
}

/// Compiles the fused kernels that a method has on GPUs of this architecture, and says what they need. No GPU is used.
/// Their machine code goes to the directory `out`, unless it is empty.
Table compiled_kernels(AttentionCase options, const std::string& architecture, const std::filesystem::path& out) {
  const int number = architecture_of(architecture);
  require(
      attention_kernels().compile != nullptr,
      "--compile: this build has no compiler for GPUs; set it up with experiments/setup --cuda=enabled, which needs "
      "the CUDA Toolkit");
  options.gradients = true;
  CollectedTileCalls collected;
  attend_case(options, {});
  if (!out.empty()) std::filesystem::create_directories(out);
  int number_of_call = 0;
  Table table({"kernel", "tile", "registers", "spilled bytes", "shared memory", "seconds"});
  for (const TileCalls& of_attend : collected.of_attend) {
    require(!of_attend.missing, "--compile {}: {} has no form for the fused engine on a GPU", options.method,
            of_attend.missing);
    for (const TileCall& call : of_attend.calls) {
      ++number_of_call;
      for (const TileKernelReport& kernel : attention_kernels().compile(call, number)) {
        if (!out.empty())
          write_file_atomically(out / fmt::format("{}-{}.cubin", number_of_call, kernel.kernel), kernel.code);
        table.row({kernel.kernel, fmt::format("{} x {}", kernel.rows, kernel.columns),
                   Cell::number(kernel.registers, 0), Cell::number(kernel.spilled_bytes, 0),
                   fmt::format("{:.1f} KiB", kernel.shared_bytes / 1024.0), Cell::number(kernel.seconds, 1)});
      }
    }
  }
  return table;
}

// ---- --check

std::vector<std::string> specifications_to_check(const std::string& attention) {
  if (const MethodEntry* method = find_method(attention)) return properties::specifications_with_sums(*method);
  attention_factory(attention);  // throws for a mistake
  return {attention};
}

/// The command that checks one case again.
std::string command_of(const Cli& cli, const properties::Property& property, const properties::Failure& failure) {
  std::string command = "attend";
  const nlohmann::ordered_json configuration = cli.configuration();
  if (configuration.contains("methods"))
    for (const auto& library : configuration["methods"].items())
      command += " --methods " + quoted_for_shell(library.key());
  return command + fmt::format(" --check {} --property {} --place {}", quoted_for_shell(failure.specification),
                               property.name, name_of(failure.place));
}

/// Checks a property, and prints its line and those of the cases that fail, of several with one reason the first.
properties::Outcome checked(const Cli& cli, const properties::Property& property,
                            const std::vector<std::string>& specifications, std::optional<Place> place) {
  const auto start = std::chrono::steady_clock::now();
  const properties::Outcome outcome = properties::check(property, specifications, place);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::string claim = property.name;
  std::ranges::replace(claim, '_', ' ');
  const std::string result = !outcome.failures.empty() ? "FAILED" : outcome.checked == 0 ? "-" : "ok";
  fmt::print("{:<7} {:<66} {:>2} cases {:>6.1f} s\n", result, claim, outcome.checked, seconds.count());
  std::map<std::string, int> cases;  // by their reason
  for (const properties::Failure& failure : outcome.failures)
    if (++cases[failure.reason] == 1)
      fmt::print("        {} in {}: {}\n        {}\n", failure.specification, name_of(failure.place), failure.reason,
                 command_of(cli, property, failure));
  for (const auto& [reason, count] : cases)
    if (count > 1) fmt::print("        {} cases in all: {}\n", count, without_middle(reason, 80));
  std::fflush(stdout);
  return outcome;
}

/// Prints what is no failure but may be a mistake: places where the attention cannot be made, and parameters without
/// effect.
void print_notes(const std::string& specification, std::optional<Place> only) {
  for (Place place : only ? std::vector{*only} : properties::all_places()) try {
      properties::random_attention(specification, place);
    } catch (const Error& error) {
      fmt::print("note    not checked in {}: {}\n", name_of(place), error.what());
    }
  for (const std::string& name : properties::parameters_without_effect(specification, only))
    fmt::print(
        "note    {} changes no output here: it is never read, cancels in the softmax, or matters for longer rows "
        "only\n",
        name);
}

/// `attend --check`: the properties that every attention must have (attention/properties), checked on one: a method,
/// which is also checked with each of its options, in sums and on some heads, or a specification, which is checked
/// alone. The property and the place restrict what is checked.
struct PropertyCheck {
  std::string attention, property;

  void add_to(Cli& cli) {
    std::vector<std::string> names;
    for (const properties::Property& property : properties::all_properties()) names.emplace_back(property.name);
    cli.option("--check", attention,
               "check the properties that every attention must have, such as gradients and causality, on a method with "
               "each of its options, or on a specification, and exit");
    cli.option("--property", property, "with --check: the only property").one_of(names);
  }
  /// Prints a line for each property, and for each case that fails the command that checks it alone. Throws Error for a
  /// specification with a mistake or without a place, and ChecksFailed if a property does not hold.
  void run(const Cli& cli, std::optional<Place> place) const {
    const NoWarnings quiet;
    std::vector<std::string> specifications;
    with_flag("--check", [&] { specifications = specifications_to_check(attention); });
    fmt::print("{}\n", fmt::join(specifications, "; "));
    int claims = 0, failed = 0, cases = 0;
    for (const properties::Property& each : properties::all_properties()) {
      if ((!property.empty() && property != each.name) || (each.needs_gpu && !cuda_is_available())) continue;
      const properties::Outcome outcome = checked(cli, each, specifications, place);
      ++claims;
      cases += outcome.checked;
      failed += !outcome.failures.empty();
    }
    print_notes(specifications[0], place);
    require(cases > 0,
            "--check {}: nothing was checked: it is not defined in this place, or the property says nothing "
            "about it",
            attention);
    if (failed > 0) throw ChecksFailed(fmt::format("{} of {} properties do not hold", failed, claims));
  }
};

}  // namespace

void attend_program(Cli& cli) {
  AttentionCase options;
  PropertyCheck check;
  std::vector<std::string> in;
  std::filesystem::path out;
  std::string described, compiled, header, architecture = "sm_90";
  bool list = false;
  int threads = 0, head = 0;
  cli.describe(
      "Computes any attention method on tensors from a file, or on random ones, and writes all inputs, parameters and "
      "results. --describe METHOD lists the tensors that --in may have: inputs, and parameters by name.");
  cli.add(options);
  cli.option("--in", in,
             "a .safetensors file of inputs and parameters, or a .npy file of one, which is called like the file "
             "(query.npy); may be given several times; query and parameters that are not given are random");
  cli.option("--out", out,
             "the .safetensors file to write; without it, a summary is printed, or with --rows tables that count "
             "sentences and heads from 1, queries and keys from 0");
  cli.option("--head", head, "with --rows: the only head of the tables, counted from 1; 0: all").range(0, 1024);
  cli.option("--threads", threads, "number of threads; 0: one per core").range(0, 1024);
  cli.option("--list", list, "print a table of all methods, and exit");
  cli.option("--describe", described,
             "print equation, options, parameters, inputs and results of a method or specification, and exit");
  cli.option(
      "--header", header,
      "print the formula of --method \"pointwise(...)\" as a C++ header with a method of this name, and exit; the "
      "script `method` compiles it, and programs load it with --methods: it is then not interpreted");
  cli.option("--compile", compiled,
             "compile the kernels that a method or specification has on a GPU, print their registers, memory and time, "
             "and exit; uses --shape, --heads and --precision, and no GPU; --out DIR gets their machine code, "
             "CALL-KERNEL.cubin");
  cli.option("--architecture", architecture, "with --compile: the GPUs to compile for");
  cli.add(check);
  cli.parse();
  if (threads > 0) omp_set_num_threads(threads);
  prepare_team(omp_get_max_threads());  // here, so that its error does not name a flag that is read later
  if (cli.given("--check")) {
    for (const char* other : {"--list", "--describe", "--header", "--compile", "--method", "--in", "--out", "--shape",
                              "--heads", "--rows", "--gradients", "--weights", "--precision", "--engine", "--seed"})
      require(!cli.given(other), "{} has no effect beside --check, which makes its own inputs", other);
    require(!check.attention.empty(), "--check: expected a method or specification, found ''");
    return check.run(cli, options.place);
  }
  require(!cli.given("--architecture") || cli.given("--compile"), "--architecture: only with --compile");
  for (const char* other : {"--method", "--in", "--out", "--describe", "--header", "--compile"})
    require(!list || !cli.given(other), "{} has no effect beside --list, which prints all methods", other);
  if (list) return fmt::print("{}", attention_table().text());
  require(check.property.empty(), "--property: only with --check, the attention to check");
  require(head == 0 || (options.rows && out.empty()),
          "--head {} chooses a head of the tables that --rows prints without --out", head);
  require(!options.rows || !out.empty() || !options.gradients,
          "--rows prints no gradients: give --out FILE beside --gradients");
  if (cli.given("--describe"))
    return with_flag("--describe", [&] {
      const std::int64_t width = options.shape.empty() ? 8 : options.shape.back();
      const bool has_heads_of_model = !find_combination(parse_specification(described)[0].name);
      require(!has_heads_of_model || width % options.heads == 0, "--heads {}: must divide the width, {} (--shape)",
              options.heads, width);
      fmt::print("{}", describe_attention(described, {.model_dim = width, .heads = options.heads}));
    });
  if (cli.given("--header")) {
    for (const char* other : {"--in", "--out", "--rows", "--gradients", "--compile"})
      require(!cli.given(other), "{} has no effect beside --header, which prints a text", other);
    return with_flag("--header", [&] { fmt::print("{}", formula_header(header, options.method)); });
  }
  if (cli.given("--compile")) {
    options.method = compiled;
    return fmt::print("{}", compiled_kernels(options, architecture, out).text());
  }

  require(out.empty() || out.extension() == ".safetensors", "--out {}: expected a file name that ends in .safetensors",
          out.string());
  if (!out.empty()) require_no_file_of_run("--out", out);
  std::error_code missing;
  for (const std::string& file : in)
    require(!std::filesystem::equivalent(out, file, missing), "--out {}: is the file of --in; it would be replaced",
            out.string());
  started_device(cli, options.device);
  const Safetensors given = read_inputs(in);
  const CaseTensors tensors = attend_case(options, given);
  if (options.heads > 1 && find_combination(parse_specification(options.method)[0].name) &&
      options.method.find("multi_head") == std::string::npos)
    warn_without_effect({"--heads"}, "each mechanism in the brackets of " + options.method + " is one head");
  if (out.empty() && options.rows) return fmt::print("{}", row_tables(tensors, head));
  if (out.empty()) return fmt::print("{}", summary(tensors).text());
  write_safetensors(out, tensors, {{"method", options.method}, {"heads", std::to_string(options.heads)}});
}

}  // namespace fovea
