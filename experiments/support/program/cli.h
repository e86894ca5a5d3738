/// Flags and configuration files: one declaration serves the command line, --help, JSON and checkpoints.
///
/// Why not CLI11 (2.1.2, Debian 12's): of these 700 lines it replaces the 80 that take arguments apart. Values (1e5 is
/// a whole number, nan is none), their JSON, resolved configurations, suggestions and wrapped help stay, and the
/// adapters between are nearly as long as what they save. It also reads `--data= --layers 3` as the data "--layers".
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace fovea {

/// Thrown by Cli::parse() after it has printed --help. run() then exits with 0.
struct HelpShown {};

/// What a flag can set.
template <class T>
concept FlagValue = std::is_same_v<T, bool> || std::is_same_v<T, int> || std::is_same_v<T, std::int64_t> ||
    std::is_same_v<T, std::uint64_t> || std::is_same_v<T, float> || std::is_same_v<T, double> ||
    std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path> ||
    std::is_same_v<T, std::optional<int>> || std::is_same_v<T, std::optional<double>> ||
    std::is_same_v<T, std::optional<std::string>> || std::is_same_v<T, std::vector<int>> ||
    std::is_same_v<T, std::vector<double>> || std::is_same_v<T, std::vector<std::string>>;

/// The flags of a program. The same names are the keys of its configuration file (without the dashes), and a run's
/// config.json is such a file. What a variable holds when it is declared is its default.
///
/// A flag wins over a file, a file over the defaults. A `bool` is `--name` or `--no-name`. A vector's flag is repeated;
/// numbers may also be given as `1,2,3`. An optional is null in a file. Whole numbers may be written `1e5`.
///
///   TrainingOptions training;             // struct TrainingOptions { double rate = 1e-3; void add_to(Cli& cli); };
///   cli.add(training);                    // cli.option("--rate", rate, "peak learning rate").positive();
///   cli.parse();
class Cli {
 public:
  struct Entry;

  /// What has just been declared, to be described further.
  class Option {
   public:
    /// Only values in [low, high]; the error says so.
    Option& range(double low, double high);
    /// Only values >= low.
    Option& at_least(double low);
    /// Only values > 0.
    Option& positive();
    /// Only these texts.
    Option& one_of(std::vector<std::string> texts);
    /// What one is: "tokens", "steps", "examples"; for --help.
    Option& unit(std::string unit);
    /// Must be given, by flag or file.
    Option& required();
    /// Another name of the flag, which is the same one; --help shows it behind the description.
    Option& also(const std::string& name);
    /// Not part of the configuration: where output goes, how many threads, what to do rather than what to compute.
    Option& unsaved();
    /// Only --help-all lists it.
    Option& rare();
    /// --help-all prints text() instead of the description.
    Option& long_help(std::function<std::string()> text);
    /// The configuration keeps lasting(value) instead of the value: an absolute path, for example.
    Option& saved_as(std::function<std::string(const std::string&)> lasting);
    /// The value names a configuration file, or a run directory whose config.json is read. The file is read first;
    /// other flags override it.
    Option& configures();
    /// The value is the name of a configuration. values(name) returns it, or throws Error for an unknown name.
    Option& configures(std::function<nlohmann::ordered_json(const std::string& name)> values);

   private:
    friend class Cli;
    explicit Option(Entry& entry) : entry_(&entry) {}
    Entry* entry_;
  };

  Cli(std::string program, int argc, const char* const* argv);
  /// The command line of one row of a comparison: that of `whole`, and the row's own arguments, which override it. Only
  /// flags declared under comparable(true) may be among them; parse() refuses others.
  Cli(const Cli& whole, std::vector<std::string> row);
  ~Cli();
  Cli(const Cli&) = delete;
  Cli& operator=(const Cli&) = delete;

  /// What the program does, in a sentence or two: the top of --help.
  void describe(const std::string& text);
  /// The heading in --help of the flags that follow.
  void group(std::string title);
  /// Whether the flags declared from here on may differ between the rows of a comparison.
  void comparable(bool may_differ);
  /// Whether only --help-all lists the flags declared from here on.
  void rare(bool only_in_help_all);

  /// Declares `--name`, or a positional argument if the name has no dashes. The variable must outlive the Cli.
  template <FlagValue T>
  Option option(const std::string& name, T& value, const std::string& description);

  /// Declares a flag that chooses one of an enumeration's values by name.
  template <class E>
  Option choice(const std::string& name, E& value, const std::vector<std::pair<std::string, E>>& names,
                const std::string& description);

  /// Declares the flags of groups of options: `options.add_to(cli)` or `add_options(cli, options)`.
  template <class... Options>
  void add(Options&... options) {
    (add_one(options), ...);
  }

  /// Sets all variables. Throws Error for a misspelt flag or key (with the nearest right one), a missing or wrong
  /// value.
  void parse();

  /// Whether there is an option `--name`.
  bool declares(const std::string& name) const;

  /// Whether the command line or a file set `--name`.
  bool given(const std::string& name) const;

  const std::string& program() const;
  /// The command line as it was given, quoted for a shell.
  std::string command() const;

  /// Every saved option with its value, in order of declaration, after "program". Usable with --config as it is.
  nlohmann::ordered_json configuration() const;

  /// Sets options from such an object; `origin` (a file) is for messages. "program", if there, must be this one.
  void configure(const nlohmann::ordered_json& values, const std::string& origin);

 private:
  Entry& declare(const std::string& name, const std::string& description);
  Entry& declare_choice(const std::string& name, std::vector<std::string> names, std::function<std::size_t()> chosen,
                        std::function<void(std::size_t)> choose, const std::string& description);
  template <class Options>
  void add_one(Options& options) {
    if constexpr (requires { options.add_to(*this); }) {
      options.add_to(*this);
    } else {
      add_options(*this, options);
    }
  }
  void configure_from(Entry& entry, const std::string& name);
  std::vector<std::string> names() const;

  struct Implementation;
  std::unique_ptr<Implementation> self_;
};

template <class E>
Cli::Option Cli::choice(const std::string& name, E& value, const std::vector<std::pair<std::string, E>>& names,
                        const std::string& description) {
  std::vector<std::string> texts;
  for (const auto& [text, meaning] : names) texts.push_back(text);
  auto chosen = [&value, names] {
    std::size_t i = 0;
    while (i + 1 < names.size() && names[i].second != value) ++i;
    return i;
  };
  auto choose = [&value, names](std::size_t i) { value = names[i].second; };
  return Option(declare_choice(name, std::move(texts), chosen, choose, description));
}

/// The path from the root, for saved_as(); empty as it is.
std::string lasting_path(const std::string& path);

/// Does what depends on the value of a flag; the flag is put before what is refused:
/// "--schedule: no schedule 'cosin'; did you mean 'cosine'?"
void with_flag(const std::string& flag, const std::function<void()>& action);

}  // namespace fovea
