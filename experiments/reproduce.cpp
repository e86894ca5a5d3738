// Every table and figure of the five papers: trains what is missing, and writes one report.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <set>

#include "experiments/support/program/child_process.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/report/html.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/reproduce/boxes.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/reduced_record.h"
#include "experiments/version.h"
#include "tensor/support/atomic_file.h"

namespace {

using namespace fovea;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> items;
  std::string tier = "smoke";
  std::int64_t jobs = 0;
  bool list = false;
  fs::path out, data = "data", records = records_directory(), keep_records;

  void add_to(Cli& cli) {
    cli.option("items", items, "items to reproduce, such as N-T1, or Y for all that begin with Y; default: all");
    cli.option("--tier", tier,
               "smoke: minutes on 2 cores; mini: hours; paper: prints the commands, sizes and machines of the papers' "
               "own settings")
        .one_of({"smoke", "mini", "paper"});
    cli.option("--jobs", jobs, "programs that run at a time, each on one thread; 0: one per core").range(0, 1024);
    cli.option("--list", list, "print the items with their state and the time that they still take, and exit");
    cli.option("--out", out, "directory of runs and report; default: runs/reproduce-TIER");
    cli.option("--records", records, "directory of reduced records of finished runs, which are not made again");
    cli.option("--keep-records", keep_records,
               "write reduced records, without the texts of the data, of all finished runs into this directory");
    cli.option("--data", data,
               "directory of the public data sets that the tier mini reads: multi30k, small_parallel_enja, sst, imdb, "
               "sva_linzen, lm1b_sample, aeslc (experiments/data.md)");
  }
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A box that was asked for, with the runs, the directory and the commands that it needs.
struct Item {
  Box box;
  std::vector<std::string> runs;
  fs::path directory;
  std::vector<Call> commands;
  std::vector<bool> lacks_model;  ///< for each command: it reads a model of which there is only a reduced record
};

std::string words_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted_for_shell(word);
  return text;
}

/// The file beside a command's output that says which command ended how.
fs::path status_file(const Call& call) { return fs::path(call.output).replace_extension(".json"); }

class Reproduction {
 public:
  explicit Reproduction(const Options& options)
      : out_(options.out.empty() ? fs::path("runs") / ("reproduce-" + options.tier) : options.out),
        jobs_(options.jobs > 0 ? static_cast<int>(options.jobs) : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))),
        data_(options.data),
        needed_(options.tier, {.out = out_, .data = options.data, .records = options.records}) {
    for (const Box& box : chosen_boxes(options.items)) {
      Item item{box, needed_.add(box), out_ / "items" / box.id, {}, {}};
      for (const BoxCommand& command : box.commands) {
        const std::string number = std::to_string(item.commands.size() + 1);
        const std::vector<std::string> models = needed_.models_of(command);
        item.lacks_model.push_back(std::any_of(models.begin(), models.end(), [&](const std::string& run) {
          return needed_.is_finished(run) && !needed_.has_model(run);
        }));
        item.commands.push_back(
            {box.id + " " + number, needed_.arguments(command, item.directory), item.directory / (number + ".txt")});
      }
      items_.push_back(std::move(item));
    }
  }

  void print_list() {
    Table table({"item", "", "runs", "commands", "minutes left"});
    double all_minutes = 0;
    std::set<std::string> missing;
    for (const Item& item : items_) {
      double minutes = 0;
      for (const std::string& run : item.runs) {
        if (needed_.is_finished(run)) continue;
        minutes += needed_.jobs().at(run).minutes;
        if (missing.insert(run).second) all_minutes += needed_.jobs().at(run).minutes;
      }
      auto finished = [&](const std::string& run) { return needed_.is_finished(run); };
      auto is_done = [&](const Call& call) { return status_of(item, call) == 0; };
      auto of = [](auto count, std::size_t all) {
        return all == 0 ? std::string() : fmt::format("{} of {}", count, all);
      };
      table.row({item.box.id, item.box.title,
                 of(std::count_if(item.runs.begin(), item.runs.end(), finished), item.runs.size()),
                 of(std::count_if(item.commands.begin(), item.commands.end(), is_done), item.commands.size()),
                 minutes > 0 ? Cell::number(minutes, 0) : Cell()});
    }
    fmt::print("{}{} items; {} runs are missing, which take about {:.0f} minutes of one core: items share runs.\n",
               table.text(), items_.size(), missing.size(), all_minutes);
  }

  /// Prints what the papers' own settings would take, without running anything.
  void print_commands() {
    std::set<std::string> printed;
    for (const Item& item : items_) {
      fmt::print("\n# {}: {}\n", item.box.id, item.box.title);
      for (const std::string& name : item.runs) {
        const RunJob& job = needed_.jobs().at(name);
        if (!printed.insert(name).second) {
          fmt::print("# the run {} is above\n", name);
          continue;
        }
        std::vector<std::string> words = needed_.arguments(name);
        std::erase(words, "--threads=1");
        words.insert(words.begin(), job.program);
        fmt::print("# {}: {}; {}\n{}\n", job.label, parameters_of(job), job.machine, words_text(words));
      }
      for (const Call& call : item.commands) fmt::print("{}\n", words_text(call.words));
    }
  }

  /// Writes reduced records of the finished runs that have none yet.
  void keep_records(const fs::path& directory) {
    std::size_t kept = 0;
    for (const auto& [name, job] : needed_.jobs()) {
      if (fs::exists(directory / name / "result.json")) continue;
      if (const std::optional<RunResult> run = load_result(needed_.directory(name)))
        save_reduced(*run, fs::absolute(data_), directory / name), ++kept;
    }
    fmt::print("{} records written into {}\n", kept, directory.string());
  }

  void run() {
    require(!needed_.needs_data() || fs::is_directory(data_),
            "--data {}: there is no such directory; the tier '{}' trains on public data sets (experiments/data.md)",
            data_.string(), needed_.tier());
    fs::create_directories(out_);
    const RunDirectory lock = RunDirectory::resume(out_);
    print_budget();
    make_runs();
    run_commands();
    write_report();
  }

 private:
  /// The exit status of an item's command that has run; empty if this very command has not, or was another version's,
  /// or is older than one of the item's runs.
  std::optional<int> status_of(const Item& item, const Call& call) const {
    const fs::path file = status_file(call);
    if (!fs::exists(file)) return {};
    const Json json = load_json(file);
    if (json.value("command", "") != words_text(call.words) || json.value("commit", "") != commit_text) return {};
    const bool is_old = std::any_of(item.runs.begin(), item.runs.end(), [&](const std::string& run) {
      const fs::path result = needed_.record(run) / "result.json";
      return fs::exists(result) && fs::last_write_time(result) > fs::last_write_time(file);
    });
    return is_old ? std::nullopt : std::optional<int>(json.value("status", 1));
  }

  /// Whether the call reads a model of which there is only a reduced record. Such calls are left out.
  static bool lacks_model(const Item& item, const Call& call) {
    return item.lacks_model[static_cast<std::size_t>(&call - item.commands.data())];
  }

  /// Prints what the missing runs take.
  void print_budget() const {
    double minutes = 0;
    std::int64_t missing = 0;
    for (const auto& [name, job] : needed_.jobs())
      if (!needed_.is_finished(name)) minutes += job.minutes, ++missing;
    if (missing > 0)
      fmt::print(stderr, "{} runs are missing: about {:.1f} hours of one core, {:.1f} hours with {} at a time\n",
                 missing, minutes / 60, minutes / 60 / jobs_, jobs_);
  }

  /// The number of parameters that the program prints for the model.
  std::string parameters_of(const RunJob& job) {
    const bool prints_them =
        job.program == "translate" || job.program == "summarize" || job.program == "language_model";
    if (!prints_them || job.kind != RunJob::Kind::training) return "parameters: as in the training";
    Call call{"", {job.program, "--parameters"}, fs::temp_directory_path() / fmt::format("fovea-{}.txt", ::getpid())};
    bool has_vocabulary = false;
    for (const auto& [flag, value] : job.flags) {
      has_vocabulary = has_vocabulary || flag == "vocabulary-size";
      if (flag != "data") call.words.push_back("--" + flag + (value.empty() ? "" : "=" + value));
    }
    if (!has_vocabulary) call.words.emplace_back("--vocabulary-size=30522");  // BERT's word pieces
    const Call* next = &call;
    int ended = 1;
    run_calls(
        1, [&] { return std::exchange(next, nullptr); }, [&](const Call&, int status) { ended = status; });
    std::vector<std::string> lines;
    std::ifstream file(call.output);
    for (std::string line; std::getline(file, line);)
      if (!line.empty()) lines.push_back(line);
    fs::remove(call.output);
    const std::string last = lines.empty() ? "" : lines.back();
    return ended == 0 ? "parameters: " + last.substr(last.find_last_of(' ') + 1) : "parameters unknown: " + last;
  }

  void make_runs() {
    std::set<std::string> waiting, failed;
    std::function<void(const std::string&)> add = [&](const std::string& name) {
      waiting.insert(name);
      const std::string& needs = needed_.jobs().at(name).needs;
      if (!needs.empty() && !needed_.has_model(needs)) add(needs);
    };
    for (const auto& [name, job] : needed_.jobs())
      if (!needed_.is_finished(name)) add(name);
    if (waiting.empty()) return;
    Progress::Options shown;
    shown.unit = "runs";
    Progress progress("training and testing", std::ssize(waiting), shown);
    std::map<std::string, Call> calls;
    auto next = [&]() -> const Call* {
      for (const std::string& name : waiting) {
        const RunJob& job = needed_.jobs().at(name);
        if (!job.needs.empty() && !needed_.has_model(job.needs)) continue;
        const std::string taken = name;
        waiting.erase(name);
        if (job.kind == RunJob::Kind::test || !fs::exists(needed_.directory(taken) / "config.json"))
          fs::remove_all(needed_.directory(taken));  // what an interrupted start left
        std::vector<std::string> words = needed_.arguments(taken);
        words.insert(words.begin(), job.program);
        return &(calls[taken] = {taken, std::move(words), out_ / "logs" / (taken + ".txt")});
      }
      return nullptr;
    };
    run_calls(jobs_, next, [&](const Call& call, int status) {
      progress.advance();
      if (status != 0 && !interrupted())
        progress.print(fmt::format("{}: failed, see {}", call.name, call.output.string()));
    });
    progress.finish();
    stop_if_interrupted();
  }

  void run_commands() {
    // Commands of one item run one after another: a later one may read what an earlier one wrote.
    std::vector<std::vector<const Call*>> waiting;
    std::int64_t count = 0;
    for (const Item& item : items_) {
      waiting.emplace_back();
      const bool is_done = std::all_of(item.commands.begin(), item.commands.end(), [&](const Call& call) {
        return lacks_model(item, call) || status_of(item, call) == 0;
      });
      if (is_done) continue;
      fs::remove_all(item.directory);  // commands refuse to overwrite what they wrote before
      for (const Call& call : item.commands)
        if (!lacks_model(item, call)) waiting.back().push_back(&call);
      count += std::ssize(waiting.back());
    }
    if (count == 0) return;
    Progress::Options shown;
    shown.unit = "commands";
    Progress progress("analysing", count, shown);
    std::set<std::string> busy;
    auto item_of = [](const Call& call) { return call.output.parent_path().string(); };
    auto next = [&]() -> const Call* {
      for (std::vector<const Call*>& calls : waiting) {
        if (calls.empty() || busy.contains(item_of(*calls.front()))) continue;
        const Call* call = calls.front();
        calls.erase(calls.begin());
        busy.insert(item_of(*call));
        return call;
      }
      return nullptr;
    };
    run_calls(jobs_, next, [&](const Call& call, int status) {
      busy.erase(item_of(call));
      progress.advance();
      if (!interrupted())
        save_json(status_file(call),
                  {{"command", words_text(call.words)}, {"status", status}, {"commit", commit_text}});
    });
    progress.finish();
    stop_if_interrupted();
  }

  void stop_if_interrupted() const {
    if (interrupted()) throw Interrupted("stopped; the same command continues");
  }

  // ---- The report

  /// Returns the reasons why an item does not count as done, a sentence each; none if it is done.
  std::vector<std::string> problems_of(const Item& item) {
    std::vector<std::string> problems;
    for (const std::string& run : item.runs)
      if (!needed_.is_finished(run))
        problems.push_back(fmt::format("{} has no result, see {}", run, (out_ / "logs" / (run + ".txt")).string()));
      else if (const std::string failure = needed_.failure(run); !failure.empty())
        problems.push_back(fmt::format("{} failed: {}", run, failure));
    for (const Sheet& sheet : item.box.sheets) {
      const SheetRuns runs = needed_.finished(sheet);
      if (const std::string why = untrained(sheet, runs, needed_.tier()); !why.empty())
        problems.push_back("untrained: " + why);
      for (const CheckedClaim& one : check_claims(sheet, runs))
        if (one.claim.is_required && one.holds != true)
          problems.push_back(one.holds ? fmt::format("must hold, and does not: {} ({})", one.claim.text, one.numbers)
                                       : fmt::format("must hold, and is not measured: {}", one.claim.text));
    }
    for (std::size_t k = 0; k < item.commands.size(); ++k) {
      const Call& call = item.commands[k];
      if (lacks_model(item, call)) continue;
      if (status_of(item, call) != 0) {
        problems.push_back("failed: " + item.box.commands[k].text);
        continue;
      }
      const std::string output = contents(call.output);
      for (const std::string& text : item.box.commands[k].shows)
        if (output.find(text) == std::string::npos)
          problems.push_back(fmt::format("'{}' is not in the output of {}", text, item.box.commands[k].text));
    }
    return problems;
  }

  /// The first lines of a command's output, and where the others are.
  std::string beginning(const Call& call, std::size_t most_lines) const {
    const std::string text = contents(call.output);
    std::size_t at = 0;
    for (std::size_t line = 0; line < most_lines && at < text.size(); ++line)
      at = std::min(text.find('\n', at), text.size()) + 1;
    if (at >= text.size()) return text;
    return fmt::format("{}... (all lines: {})\n", text.substr(0, at), fs::relative(call.output, out_).string());
  }

  static std::string claim_text(const CheckedClaim& one) {
    return fmt::format("{}{}: {}", one.claim.is_required ? "must hold: " : "", one.claim.text,
                       one.holds ? fmt::format("{} ({})", *one.holds ? "yes" : "no", one.numbers) : "not measured");
  }

  void add_item(const Item& item, const std::vector<std::string>& problems, Report& page, std::string& markdown) {
    const std::string state = problems.empty() ? "done" : "not done";
    page.section(item.box.id).subsection(item.box.title);
    markdown += fmt::format("\n## {}: {}\n\n", item.box.id, item.box.title);
    auto line = [&](const std::string& text) {
      page.text(text);
      markdown += text + "\n\n";
    };
    line("State: " + state + ".");
    for (const std::string& problem : problems) line("Problem: " + problem + ".");
    if (!item.box.shows.empty()) line("Must show: " + item.box.shows);
    for (const Sheet& sheet : item.box.sheets) {
      const SheetRuns runs = needed_.finished(sheet);
      const Table table = sheet_table(sheet, runs);
      const std::string caption = sheet_caption(sheet, runs);
      page.add(table, sheet.title + ". " + caption);
      markdown += fmt::format("**{}.** {}\n\n{}\n", sheet.title, caption, table.markdown());
      for (const CheckedClaim& one : check_claims(sheet, runs)) {
        page.text(claim_text(one));
        markdown += "- " + claim_text(one) + "\n";
      }
      markdown += "\n";
    }
    constexpr std::size_t most_lines = 40;
    for (const Call& call : item.commands) {
      if (lacks_model(item, call)) {
        line("Not run, because the records do not have the trained model: " + words_text(call.words));
        continue;
      }
      const std::string text = fmt::format("$ {}\n{}", words_text(call.words), beginning(call, most_lines));
      page.code(text);
      markdown += "```\n" + text + "```\n\n";
    }
    for (const fs::path& figure : figures_of(item)) {
      const std::string svg = contents(figure);
      page.add_figure(svg.substr(std::min(svg.find("<svg"), svg.size())));
      markdown += fmt::format("![{}]({})\n\n", figure.stem().string(), fs::relative(figure, out_).string());
    }
  }

  static std::vector<fs::path> figures_of(const Item& item) {
    std::vector<fs::path> figures;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(item.directory, none))
      if (entry.path().extension() == ".svg") figures.push_back(entry.path());
    std::sort(figures.begin(), figures.end());
    return figures;
  }

  void write_report() {
    Report page("Tables and figures of the papers", fmt::format("tier {}", needed_.tier()));
    std::string markdown, body;
    Table summary({"item", "", "state"});
    std::vector<std::vector<std::string>> problems;
    std::size_t done = 0;
    for (const Item& item : items_) {
      problems.push_back(problems_of(item));
      done += problems.back().empty() ? 1 : 0;
      summary.row({item.box.id, item.box.title, problems.back().empty() ? "done" : problems.back().front()});
    }
    const std::string about = fmt::format(
        "{} of {} items are done at the tier '{}'. Data and sizes are not the papers': compare the order of rows and "
        "the distances between them, not values. 'Must hold' fails an item; other statements are expectations, "
        "printed with what was measured. {}",
        done, items_.size(), needed_.tier(), origin_text(needed_.read_runs()));
    page.section("Summary").text(about).add(summary);
    markdown = "# Tables and figures of the papers\n\n" + about + "\n\n" + summary.markdown();
    for (std::size_t k = 0; k < items_.size(); ++k) add_item(items_[k], problems[k], page, body);
    page.write(out_ / "report.html");
    write_file_atomically(out_ / "report.md", markdown + body);
    fmt::print("{}\n{}\nreport: {}\n", summary.text(), about, (out_ / "report.html").string());
    require(done == items_.size(), "{} of {} items are not done; {} says why", items_.size() - done, items_.size(),
            (out_ / "report.md").string());
  }

  fs::path out_;
  int jobs_;
  fs::path data_;
  NeededRuns needed_;
  std::vector<Item> items_;
};

}  // namespace

int main(int argc, char** argv) {
  return run("reproduce", argc, argv, [](Cli& cli) {
    Options options;
    cli.describe(
        "Reproduces the tables and figures of the papers: trains the models that are missing, tests them, and writes "
        "report.md and report.html with the papers' numbers beside ours.");
    cli.add(options);
    cli.parse();
    Reproduction reproduction(options);
    if (!options.keep_records.empty())
      reproduction.keep_records(options.keep_records);
    else if (options.list)
      reproduction.print_list();
    else if (options.tier == "paper")
      reproduction.print_commands();
    else
      reproduction.run();
  });
}
