/// Flags and configuration files: one declaration serves the command line, --help, JSON and checkpoints.
///
/// Why not CLI11 (2.1.2, Debian 12's): it would replace 80 of these 700 lines, those that split arguments. Values (1e5
/// is a whole number, nan is not a number), their JSON, configurations, suggestions and wrapped help would remain, and
/// the adapters would be nearly as long as the replaced lines. CLI11 also reads `--data= --layers 3` as the data
/// "--layers".
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace fovea {

/// Thrown by Cli::parse() after it has printed --help, or the text of Option::prints(). run() then exits with 0.
struct HelpShown {};

/// The types of variables that a flag can set.
using FlagVariable =
    std::variant<bool*, int*, std::int64_t*, std::uint64_t*, float*, double*, std::string*, std::filesystem::path*,
                 std::optional<int>*, std::optional<double>*, std::optional<std::string>*, std::vector<int>*,
                 std::vector<double>*, std::vector<std::string>*>;

/// The flags of a program. The same names are the keys of its configuration file (without the dashes), and a run's
/// config.json is such a file. The value of a variable when it is declared is its default.
///
/// A flag has precedence over a file, and a file over the defaults. A `bool` is `--name` or `--no-name`. A vector's
/// flag is repeated; numbers may also be given as `1,2,3`. An optional is null in a file. Whole numbers may be written
/// `1e5`.
///
///   TrainingOptions training;             // struct TrainingOptions { double rate = 1e-3; void add_to(Cli& cli); };
///   cli.add(training);                    // cli.option("--rate", rate, "peak learning rate").positive();
///   cli.parse();
class Cli {
 public:
  struct Entry;

  /// The option just declared, to be described further.
  class Option {
   public:
    /// Allows only values in [low, high].
    Option& range(double low, double high);
    /// Allows only values >= low.
    Option& at_least(double low);
    /// Allows only values > 0.
    Option& positive();
    /// Allows only these texts.
    Option& one_of(std::vector<std::string> texts);
    /// The option must be given, by flag or file.
    Option& required();
    /// Declares a second name of the flag; --help-all shows it behind the description.
    Option& also(const std::string& name);
    /// The option is not part of the configuration. For options that do not change results, such as the place of
    /// output, and for those that select another use of the program.
    Option& unsaved();
    /// A switch that makes parse() print text(), when all else is read, and end the program. The option is unsaved.
    Option& prints(std::function<std::string()> text);
    /// Only --help-all lists the option.
    Option& rare();
    /// --help-all prints text() instead of the description.
    Option& long_help(std::function<std::string()> text);
    /// The configuration keeps lasting(value) instead of the value: an absolute path, for example.
    Option& saved_as(std::function<std::string(const std::string&)> lasting);
    /// The value names a configuration file, or a run directory whose config.json is read. The file is read first;
    /// other flags override it. The option itself is unsaved.
    Option& configures();
    /// The value is the name of a configuration. values(name) returns it, or throws Error for an unknown name.
    Option& configures(std::function<nlohmann::ordered_json(const std::string& name)> values);

   private:
    friend class Cli;
    explicit Option(Entry& entry) : entry_(&entry) {}
    Entry* entry_;
  };

  Cli(std::string program, int argc, const char* const* argv);
  /// The command line of one row of a comparison: that of `whole`, overridden by the row's own arguments. parse()
  /// throws Error for a flag of the row that was not declared under comparable(true).
  Cli(const Cli& whole, std::vector<std::string> row);
  ~Cli();
  Cli(const Cli&) = delete;
  Cli& operator=(const Cli&) = delete;

  /// Sets the text at the top of --help: the purpose of the program in a sentence or two.
  void describe(const std::string& text) { about_ = text; }
  /// Begins a group of flags in --help, with this heading. Flags of a group that is not saved are Option::unsaved().
  void group(std::string title, bool is_saved = true) { group_ = std::move(title), saved_ = is_saved; }
  /// Whether the flags declared from here on may differ between the rows of a comparison.
  void comparable(bool may_differ) { comparable_ = may_differ; }

  /// Declares `--name`, or a positional argument if the name has no dashes. The variable must outlive the Cli.
  template <class T>
  Option option(const std::string& name, T& value, const std::string& description) {
    return option(name, FlagVariable(&value), description);
  }

  /// Declares an option that only --help-all lists.
  template <class T>
  Option rare(const std::string& name, T& value, const std::string& description) {
    return option(name, value, description).rare();
  }

  /// Declares a flag that chooses one of an enumeration's values by name.
  template <class E>
  Option choice(const std::string& name, E& value, const std::vector<std::pair<std::string, E>>& names,
                const std::string& description) {
    std::vector<std::string> texts;
    for (const auto& [text, meaning] : names) texts.push_back(text);
    auto chosen = [&value, names] {
      std::size_t i = 0;
      while (i + 1 < names.size() && names[i].second != value) ++i;
      return i;
    };
    auto choose = [&value, names](std::size_t i) { value = names[i].second; };
    return declare_choice(name, std::move(texts), chosen, choose, description);
  }

  /// Declares the flags of groups of options.
  template <class... Options>
  void add(Options&... options) {
    (options.add_to(*this), ...);
  }

  /// Sets all variables, and loads the shared objects of --methods, which every program has. Throws Error for a
  /// misspelt flag or key (with the nearest right one), a missing or wrong value.
  void parse();

  /// Whether there is an option `--name`.
  bool declares(const std::string& name) const;

  /// Whether the command line or a file set `--name`.
  bool given(const std::string& name) const;

  /// The file, or the flag with configures() and its value, that set `--name`. Empty if the command line set it, or
  /// nothing did.
  const std::string& origin_of(const std::string& name) const;

  const std::string& program() const { return program_; }
  /// The command line without the program's name.
  const std::vector<std::string>& arguments() const { return arguments_; }
  /// The command line as it was given, quoted for a shell.
  std::string command() const;

  /// An object that --config can read back from a file: "program", then every saved option with its value, in order of
  /// declaration. If --methods loaded shared objects, "methods" is an object with the path and checksum of each. Throws
  /// Error for a text that is not UTF-8.
  nlohmann::ordered_json configuration() const;

  /// Sets options from an object like configuration(); `origin` (a file) is for messages. Throws Error if the key
  /// "program" is present and names another program.
  void configure(const nlohmann::ordered_json& values, const std::string& origin);

 private:
  Entry& declare(const std::string& name, const std::string& description);
  Option option(const std::string& name, const FlagVariable& variable, const std::string& description);
  Option declare_choice(const std::string& name, std::vector<std::string> names, std::function<std::size_t()> chosen,
                        std::function<void(std::size_t)> choose, const std::string& description);
  void configure_from(Entry& entry, const std::string& name);
  void load_own_methods() const;

  /// The texts that the command line gives to each option, in order.
  using Given = std::vector<std::pair<Entry*, std::vector<std::string>>>;
  Entry* find(const std::string& name) const;
  void give(Entry* entry, std::string text);
  Given read_arguments(const std::vector<std::string>& all);
  std::size_t read_flag(const std::vector<std::string>& all, std::size_t at);
  void read_positional(const std::string& text);
  void assign(const Given& texts);
  std::string help(bool all) const;
  std::string help_of(const std::string& group, std::size_t indent, bool all) const;

  std::string program_, about_, group_ = "Flags";
  bool comparable_ = false, saved_ = true;
  std::vector<std::string> arguments_, row_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::filesystem::path config_;
  std::vector<std::string> methods_;                   ///< shared objects
  std::map<std::string, std::string> methods_of_run_;  ///< checksums in the configuration that was read, by their place
  Given given_;
};

/// The absolute path, for saved_as(); an empty path stays empty.
std::string lasting_path(const std::string& path);

/// Calls action(), which depends on the value of a flag, and puts the flag before the message of an Error: "--schedule:
/// no schedule 'cosin'; did you mean 'cosine'?"
void with_flag(const std::string& flag, const std::function<void()>& action);

/// Warns of flags that were given and change nothing, "without effect: --rate, --clip; nothing is trained", unless
/// there are none.
void warn_without_effect(const std::vector<std::string>& flags, const std::string& reason);

}  // namespace fovea
