#include "experiments/support/program/cli.h"

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "attention/method_library.h"
#include "experiments/support/program/files.h"
#include "experiments/support/program/flag_value.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/utf8.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/suggestion.h"
#include "tensor/support/warning.h"

namespace fovea {

using namespace flag_value;

namespace {

std::string without_dashes(const std::string& name) { return name.starts_with("--") ? name.substr(2) : name; }

bool is_flag_like(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && !number<double>(argument);
}

/// The number of a value in JSON, which has no infinity.
double number_of(const Json& value) {
  return value.is_string() ? from_text<double>(value.get<std::string>()) : value.get<double>();
}

}  // namespace

// --- one option -----------------------------------------------------------------------------------------------------

struct Cli::Entry {
  std::string name, other_name;  ///< without dashes
  std::string description, group, placeholder;
  std::string allowed;  ///< the range in words, for --help
  std::string origin;   ///< the file that set the value; empty: none did, or the command line overrode it
  const char* expectation = "a text";  ///< of an element
  bool is_positional = false, is_switch = false, is_list = false, is_optional = false;
  bool required = false, saved = true, configures = false, comparable = false, rare = false, given = false;
  std::function<std::string()> long_description;  ///< for --help-all; may be empty
  std::function<std::string()> printed;           ///< by parse(), which then ends the program; may be empty
  std::function<void(const std::vector<std::string>&)> set_texts;
  std::function<Json()> get;
  std::function<std::string(const std::string&)> lasting;  ///< may be empty
  std::function<Json(const std::string&)> configuration;   ///< of a name that is no file; may be empty
  std::vector<std::function<void(const Json&)>> checks;    ///< each gets one element; throws Error with the reason

  std::string flag() const { return is_positional ? name : "--" + name; }

  /// Sets the variable through set() and checks it. Error messages begin with `where`.
  template <class Set>
  void assign(const std::string& where, Set set) {
    try {
      set();
      Json value = get();
      if (value.is_null()) value = Json::array();  // an optional without a value has nothing to check
      if (!value.is_array()) value = Json::array({value});
      for (const Json& element : value) {
        for (const auto& check : checks) check(element);
      }
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
    given = true;
    origin.clear();
  }

  void set_json(const Json& json) {
    require(!is_list || json.is_array(), "expected a list, found {}", text_of(json));
    std::vector<std::string> texts;
    for (const Json& element : is_list ? json : Json::array({json})) {
      if (is_optional && element.is_null()) continue;
      const std::string text = element.is_string() ? element.get<std::string>() : text_of(element);
      const bool is_number = element.is_number() || text == "inf" || text == "-inf";
      const std::string_view expected = expectation;
      require(expected == "a text" ? element.is_string()
              : is_switch          ? element.is_boolean()
                                   : is_number,
              "expected {}, found {}", expected, without_middle(text_of(element), 80));
      texts.push_back(text);
    }
    set_texts(texts);
  }

  std::string default_text() const {
    Json value = get();
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_string()) return value.get<std::string>();
    if (value.is_null() || value.empty()) return "";
    return value.is_array() ? text_of(value).substr(1, text_of(value).size() - 2) : text_of(value);
  }

  std::string help_left() const {
    if (is_positional) return name;
    if (is_switch) return (default_text() == "yes" ? "--[no-]" : "--") + name;
    return "--" + name + " " + placeholder;
  }

  /// The description with its range, unit and default; without --help-all only its part before the first ';', and the
  /// default.
  std::string help_right(bool all) const {
    std::string notes;
    auto note = [&](const std::string& text) {
      if (!text.empty()) notes += (notes.empty() ? "" : "; ") + text;
    };
    if (all && !other_name.empty()) note("also --" + other_name);
    if (all || allowed.starts_with("one of")) note(allowed);
    if (all && is_list) note("may be repeated");
    if (required) {
      note("required");
    } else if (is_switch) {
      note(default_text() == "yes" ? "default: yes" : "");
    } else if (auto value = default_text(); !value.empty()) {
      note("default: " + value);
    }
    const std::string shown =
        all ? (long_description ? long_description() : description) : description.substr(0, description.find(';'));
    const char* before = shown.find('\n') != shown.npos ? "\n" : " ";  // behind a list on a line of their own
    return notes.empty() ? shown : shown + before + "(" + notes + ")";
  }
};

Cli::Option& Cli::Option::range(double low, double high) {
  const bool has_end = std::isfinite(high);
  entry_->allowed = has_end ? fmt::format("{} to {}", low, high) : fmt::format("at least {}", low);
  entry_->checks.push_back([=](const Json& value) {
    const double v = number_of(value);
    require(has_end || v >= low, "{} is too small, the least is {}", v, low);
    require(v >= low && v <= high, "{} is outside [{}, {}]", v, low, high);
  });
  return *this;
}

Cli::Option& Cli::Option::at_least(double low) { return range(low, std::numeric_limits<double>::infinity()); }

Cli::Option& Cli::Option::positive() {
  entry_->allowed = "above 0";
  entry_->checks.push_back(
      [](const Json& value) { require(number_of(value) > 0, "{} must be above 0", number_of(value)); });
  return *this;
}

Cli::Option& Cli::Option::one_of(std::vector<std::string> texts) {
  const std::string alternatives = fmt::format("{}", fmt::join(texts, "|"));
  constexpr std::size_t short_enough = 30;
  if (alternatives.size() <= short_enough) {
    entry_->placeholder = alternatives;
  } else {
    entry_->allowed = fmt::format("one of {}", fmt::join(texts, ", "));
  }
  entry_->checks.push_back([texts = std::move(texts)](const Json& value) {
    const auto text = value.get<std::string>();
    require(std::ranges::count(texts, text) > 0, "{} is none of {}{}", in_quotes(text), listed(texts, ", "),
            did_you_mean(text, texts));
  });
  return *this;
}

Cli::Option& Cli::Option::required() { return entry_->required = true, *this; }
Cli::Option& Cli::Option::also(const std::string& name) { return entry_->other_name = name.substr(2), *this; }
Cli::Option& Cli::Option::unsaved() { return entry_->saved = false, *this; }
Cli::Option& Cli::Option::prints(std::function<std::string()> text) {
  entry_->comparable = false;
  return entry_->printed = std::move(text), unsaved();
}
Cli::Option& Cli::Option::rare() { return entry_->rare = true, *this; }
Cli::Option& Cli::Option::long_help(std::function<std::string()> text) {
  return entry_->long_description = std::move(text), *this;
}
Cli::Option& Cli::Option::saved_as(std::function<std::string(const std::string&)> lasting) {
  return entry_->lasting = std::move(lasting), *this;
}
Cli::Option& Cli::Option::configures() { return entry_->configures = true, unsaved(); }
Cli::Option& Cli::Option::configures(std::function<Json(const std::string&)> values) {
  return entry_->configuration = std::move(values), configures();
}

// --- the command line -----------------------------------------------------------------------------------------------

Cli::Entry* Cli::find(const std::string& name) const {
  for (const auto& entry : entries_)
    if (entry->name == name || (!name.empty() && entry->other_name == name)) return entry.get();
  return nullptr;
}

void Cli::give(Entry* entry, std::string text) {
  auto at = std::ranges::find_if(given_, [&](const auto& g) { return g.first == entry; });
  if (at == given_.end()) at = given_.insert(given_.end(), {entry, {}});
  if (!entry->is_list) at->second.clear();  // the last value counts
  at->second.push_back(std::move(text));
}

Cli::Given Cli::read_arguments(const std::vector<std::string>& all) {
  given_.clear();
  bool only_positionals = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!only_positionals && all[i] == "--") {
      only_positionals = true;
    } else if (!only_positionals && is_flag_like(all[i])) {
      i = read_flag(all, i);
    } else {
      read_positional(all[i]);
    }
  }
  return std::exchange(given_, {});
}

/// Reads the flag at `at`, and its value if that is the next argument. Returns the index of the last argument read.
std::size_t Cli::read_flag(const std::vector<std::string>& all, std::size_t at) {
  const std::string& argument = all[at];
  const std::size_t equals = argument.find('=');
  std::optional<std::string> value;
  if (equals != std::string::npos) value = argument.substr(equals + 1);
  const std::string flag = argument.substr(0, equals);
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  if (flag == "--help" || flag == "--help-all" || flag == "-h") {
    fmt::print("{}", help(flag == "--help-all"));
    throw HelpShown{};
  }
  Entry* entry = find(name);
  const bool negated = !entry && name.starts_with("no-") && find(name.substr(3)) && find(name.substr(3))->is_switch;
  if (negated) entry = find(name.substr(3));
  if (!entry || entry->is_positional || !flag.starts_with("--")) {
    std::vector<std::string> flags{"--help", "--help-all"};
    for (const auto& e : entries_) {
      if (!e->is_positional) flags.push_back("--" + e->name);
      if (!e->other_name.empty()) flags.push_back("--" + e->other_name);
    }
    fail("{}: no such flag{}", without_middle(flag, 80), did_you_mean("--" + name, flags));
  }
  if (entry->is_switch) {
    require(!negated || !value, "{}: takes no value", flag);
    if (!value) value = negated ? "false" : "true";
  }
  if (!value) {
    require(++at < all.size(), "{}: a value is missing ({})", flag, entry->placeholder);
    value = all[at];
    require(!value->starts_with("--"), "{0}: a value is missing ({1}) before {2}; if {2} is the value: {0}={2}", flag,
            entry->placeholder, without_middle(*value, 80));
  }
  give(entry, *value);
  return at;
}

void Cli::read_positional(const std::string& text) {
  for (const auto& entry : entries_) {
    bool taken = std::ranges::any_of(given_, [&](const auto& g) { return g.first == entry.get(); });
    if (entry->is_positional && (entry->is_list || !taken)) return give(entry.get(), text);
  }
  std::string name = text.substr(0, text.find('='));
  const bool only_flags = std::ranges::none_of(entries_, [](const auto& entry) { return entry->is_positional; });
  fail("{}: unexpected argument{}", in_quotes(text),
       find(name)   ? fmt::format("; did you mean '--{}'?", without_middle(text, 80))
       : only_flags ? "; every value follows its flag (--help lists them)"
                    : "");
}

/// The lines of the flags of one group.
std::string Cli::help_of(const std::string& group, std::size_t indent, bool all) const {
  std::string text;
  for (const auto& entry : entries_) {
    if (entry->group != group || (entry->rare && !all)) continue;
    std::string left = "  " + entry->help_left();
    bool fits = display_width(left) + 2 <= indent;
    text += fits ? left : left + "\n";
    std::size_t column = fits ? display_width(left) : 0;
    const std::string right = entry->help_right(all);
    for (std::string_view line : split_columns(right, '\n')) {  // a list has an entry in each line
      text += std::string(indent - column, ' ') + wrapped(line, indent, indent + (column > 0 ? 0 : 2)) + "\n";
      column = 0;
    }
  }
  return text;
}

std::string Cli::help(bool all) const {
  std::string text = about_.empty() ? "" : wrapped(program_ + ": " + about_, 0, 0) + "\n\n";
  text += fmt::format("usage: {} [flags]", program_);
  std::vector<std::string> groups;
  std::size_t left_width = 0, hidden = 0;
  for (const auto& entry : entries_) {
    if (entry->is_positional) {
      std::string name = entry->name + (entry->is_list ? "..." : "");
      text += entry->required ? " " + name : " [" + name + "]";
    }
    if (entry->rare && !all) {
      ++hidden;
      continue;
    }
    if (std::ranges::find(groups, entry->group) == groups.end()) groups.push_back(entry->group);
    left_width = std::max(left_width, display_width(entry->help_left()));
  }
  constexpr std::size_t widest_left = 30;
  std::size_t indent = std::min(left_width, widest_left) + 4;
  text += "\n";
  for (const std::string& group : groups) text += fmt::format("\n{}:\n", group) + help_of(group, indent, all);
  const std::string help = "  --help", help_all = "  --help-all";
  text += help + std::string(indent - help.size(), ' ') + "this text\n";
  if (hidden > 0)
    text += help_all + std::string(indent - help_all.size(), ' ') + fmt::format("{} more flags\n", hidden);
  return text;
}

Cli::Cli(std::string program, int argc, const char* const* argv)
    : program_(std::move(program)), arguments_(argv + std::min(argc, 1), argv + argc) {}

Cli::Cli(const Cli& whole, std::vector<std::string> row)
    : program_(whole.program_), arguments_(whole.arguments_), row_(std::move(row)) {}

Cli::~Cli() = default;

Cli::Entry& Cli::declare(const std::string& name, const std::string& description) {
  auto entry = std::make_unique<Entry>();
  entry->is_positional = !name.starts_with("--");
  entry->name = entry->is_positional ? name : name.substr(2);
  entry->description = description;
  entry->group = entry->is_positional ? "Arguments" : group_;
  entry->comparable = comparable_;
  entry->saved = saved_;
  bool is_new = find(entry->name) == nullptr;
  if (!is_new || entry->name == "help" || entry->name == "help-all" || entry->name == "program") {
    throw std::logic_error("the option '" + name + "' is declared twice");
  }
  entries_.push_back(std::move(entry));
  return *entries_.back();
}

Cli::Option Cli::option(const std::string& name, const FlagVariable& variable, const std::string& description) {
  Entry& entry = declare(name, description);
  auto use = [&entry]<class T>(T* value) {
    using Kind = ElementOf<T>;
    using Element = typename Kind::type;
    entry.placeholder = placeholder<Element>();
    entry.expectation = expectation<Element>();
    entry.is_switch = std::is_same_v<T, bool>;
    entry.is_list = Kind::is_list;
    entry.is_optional = Kind::is_optional;
    entry.set_texts = [value](const std::vector<std::string>& texts) {
      if constexpr (Kind::is_list) {
        value->clear();
        for (const std::string& text : texts)
          for (std::string_view part :
               is_text<Element> ? std::vector<std::string_view>{text} : split_columns(text, ','))
            value->push_back(from_text<Element>(std::string(part)));
      } else if (!texts.empty()) {
        *value = from_text<Element>(texts.back());
      } else if constexpr (Kind::is_optional) {
        value->reset();
      }
    };
    entry.get = [value] {
      if constexpr (Kind::is_list) {
        Json list = Json::array();
        for (const Element& element : *value) list.push_back(to_json(element));
        return list;
      } else if constexpr (Kind::is_optional) {
        return *value ? Json(to_json(**value)) : Json();
      } else {
        return Json(to_json(*value));
      }
    };
  };
  std::visit(use, variable);
  return Option(entry);
}

Cli::Option Cli::declare_choice(const std::string& name, std::vector<std::string> names,
                                std::function<std::size_t()> chosen, std::function<void(std::size_t)> choose,
                                const std::string& description) {
  Entry& entry = declare(name, description);
  entry.set_texts = [names, choose](const std::vector<std::string>& texts) {
    const auto at = std::ranges::find(names, texts.back());
    require(at != names.end(), "{} is none of {}{}", in_quotes(texts.back()), listed(names, ", "),
            did_you_mean(texts.back(), names));
    choose(std::size_t(at - names.begin()));
  };
  entry.get = [names, chosen] { return Json(names[chosen()]); };
  return Option(entry).one_of(names);
}

std::string lasting_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).string();
}

void with_flag(const std::string& flag, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string what = error.what();
    fail("{}{}", what.starts_with(flag + ":") ? "" : flag + ": ", what);
  }
}

void Cli::assign(const Given& all) {
  for (const auto& [entry, texts] : all)
    entry->assign(entry->flag(), [&entry = entry, &texts = texts] { entry->set_texts(texts); });
}

void Cli::parse() {
  group("General");
  option("--config", config_, "read options from this JSON file first (a run's config.json, for example)")
      .unsaved()
      .rare()
      .configures();
  option("--methods", methods_,
         "a shared object with attention methods of your own, which the script `method` compiles from a header; may be "
         "given several times")
      .unsaved()
      .rare();
  const Given line = read_arguments(arguments_), row = read_arguments(row_);
  Entry* source = nullptr;
  for (const auto& [entry, texts] : line) {
    if (!entry->configures) continue;
    require(!source, "{} and {} exclude each other: both name a configuration", source ? source->flag() : "",
            entry->flag());
    source = entry;
    configure_from(*entry, texts.back());
  }
  for (const auto& [entry, texts] : row)
    require(entry->comparable && !entry->configures, "{}: cannot differ between the rows of a comparison",
            entry->flag());
  assign(line);
  assign(row);
  for (const auto& entry : entries_) {
    require(entry->given || !entry->required, "{} is required: {}", entry->flag(), entry->description);
  }
  load_own_methods();
  for (const auto& entry : entries_)
    if (entry->printed && entry->get() == true) {
      fmt::print("{}", entry->printed());
      throw HelpShown{};
    }
}

/// Loads the shared objects of --methods. Where this process has such a flag, its objects stand for those that the
/// configurations of runs name, which may have moved.
void Cli::load_own_methods() const {
  static bool has_flag = false;
  const std::string& file = origin_of("methods");
  has_flag |= file.empty() && !methods_.empty();
  static std::set<std::string> checksums;  // of all objects that this process has loaded
  if (file.empty() || !has_flag)
    with_flag(file.empty() ? "--methods" : file + ": methods (if moved: --methods PLACE)", [&] {
      for (const std::string& library : methods_) {
        load_methods(library);
        checksums.insert(file_checksum(library));
      }
    });
  for (const auto& [place, checksum] : methods_of_run_)
    if (!checksums.contains(checksum))
      warn(place + ": was compiled again or exchanged since the run began: its methods may compute something else");
}

/// Reads the configuration that `name`, the value of a flag with configures(), refers to.
void Cli::configure_from(Entry& entry, const std::string& name) {
  if (entry.configuration) {
    entry.assign(entry.flag(), [&] { entry.set_texts({name}); });
    Json values;
    with_flag(entry.flag(), [&] { values = entry.configuration(name); });
    return configure(values, entry.flag() + " " + name);
  }
  std::filesystem::path path = name;
  std::error_code error;
  bool exists = std::filesystem::exists(path, error);
  require(!error, "{} {}: cannot be read: {}", entry.flag(), name, error.message());
  require(exists, "{} {}: there is no such file or directory", entry.flag(), name);
  bool is_run = std::filesystem::is_directory(path);
  if (is_run && is_hugging_face(path)) return configure(hugging_face_flags(path, *this), path.string());
  if (is_run) path /= "config.json";
  require(!is_run || std::filesystem::exists(path), "{} {}: not the directory of a run: it has no config.json",
          entry.flag(), name);
  const Json values = load_json(path);
  require(!values.contains("architectures") && !values.contains("model_type"),
          "{}: describes a Hugging Face model, expected the configuration of a run; name the folder that it is in",
          path.string());
  configure(values, path.string());
}

std::string Cli::command() const {
  std::string text = program_;
  for (const std::string& argument : arguments_) text += " " + quoted_for_shell(argument);
  return text;
}

bool Cli::declares(const std::string& name) const { return find(name) != nullptr; }

bool Cli::given(const std::string& name) const {
  Entry* entry = find(without_dashes(name));
  return entry && entry->given;
}

const std::string& Cli::origin_of(const std::string& name) const {
  static const std::string none;
  Entry* entry = find(without_dashes(name));
  return entry ? entry->origin : none;
}

Json Cli::configuration() const {
  Json values;
  values["program"] = program_;
  for (const auto& entry : entries_) {
    if (!entry->saved) continue;
    Json value = entry->get();
    if (entry->lasting) value = entry->lasting(value.get<std::string>());
    const bool is_kept = !value.is_string() || invalid_utf8(value.get<std::string>()) == std::string::npos;
    require(is_kept, "--{}: '{}' is not UTF-8, so config.json cannot keep it{}", entry->name,
            is_kept ? "" : value.get_ref<const std::string&>(),
            entry->lasting ? "; a file or directory needs another name" : "");
    values[entry->name] = value;
  }
  for (const std::string& library : methods_) {
    const std::string path = lasting_path(library);
    require(invalid_utf8(path) == std::string::npos,
            "--methods: '{}' is not UTF-8, so config.json cannot keep it; the file needs another name", path);
    values["methods"][path] = file_checksum(library);
  }
  return values;
}

namespace {

/// Options that runs of earlier versions have in their config.json, with the values that change nothing.
const std::map<std::string, std::string> retired_options{
    {"codes", ""}, {"target-codes", ""}, {"format", "auto"}, {"also-test", ""}};

}  // namespace

void Cli::configure(const Json& values, const std::string& origin) {
  require(values.is_object(), "{}: expected an object with the options' values, found {}", origin, values.type_name());
  std::vector<std::string> names;
  for (const auto& entry : entries_)
    if (!entry->configures) names.push_back(entry->name);
  for (const auto& [key, value] : values.items()) {
    if (key == "program") {
      require(value == program_, "{}: is a configuration of {}, not of '{}'", origin, text_of(value), program_);
      continue;
    }
    Entry* entry = find(key);
    if (const auto retired = retired_options.find(key); !entry && retired != retired_options.end())
      if (value == retired->second) continue;
    require(entry && !entry->configures, "{}: there is no option '{}'{}", origin, key, did_you_mean(key, names));
    const std::string place = origin + ": " + key;
    entry->assign(place, [&, &key = key, &value = value] {
      if (key != "methods" || !value.is_object()) return entry->set_json(value);
      std::vector<std::string> libraries;
      for (const auto& [library, checksum] : value.items()) {
        require(checksum.is_string(), "expected a checksum for {}, found {}", library, text_of(checksum));
        libraries.push_back(library), methods_of_run_[place + ": " + library] = checksum;
      }
      entry->set_texts(libraries);
    });
    entry->origin = origin;
  }
}

void warn_without_effect(const std::vector<std::string>& flags, const std::string& reason) {
  if (!flags.empty()) warn(fmt::format("without effect: {}; {}", listed(flags, ", "), reason));
}

}  // namespace fovea
