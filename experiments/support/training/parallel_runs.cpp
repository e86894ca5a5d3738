#include "experiments/support/training/parallel_runs.h"

#include <csignal>
#include <cstring>
#include <fstream>

#include <fmt/core.h>

#include "experiments/support/program/child_process.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// The last line of a program's output, without the program's name: after an error, its message.
std::string last_line(const Call& call) {
  std::string last;
  std::ifstream file(call.output);
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  const std::string program = call.words.front() + ": ";
  return last.starts_with(program) ? last.substr(program.size()) : last;
}

/// "SIGKILL (9)"
std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? fmt::format("SIG{} ({})", name, signal) : std::to_string(signal);
}

/// The runs in progress on one display: a row for each, and a line for all.
class ParallelProgress {
 public:
  explicit ParallelProgress(const std::vector<ParallelRun>& runs)
      : runs_(runs), made_(runs.size()), texts_(runs.size()), bar_("all", updates_of(runs)) {
    note();
  }

  void begin(std::size_t k) {
    running_[k] = "reading the data";
    draw();
  }

  void report(std::size_t k, const ProgressReport& report) {
    if (report.is_message) return print(k, report.text);
    const bool is_training = report.title == runs_[k].title;
    running_[k] = is_training ? report.text : report.title + " " + report.text;
    if (is_training) {
      if (texts_[k].empty()) bar_.skip(made_[k] = report.start);
      texts_[k] = report.text;
      draw();
      bar_.advance(report.done - std::exchange(made_[k], report.done));
    } else {
      draw();
    }
  }

  /// Prints a line about the run, above the display.
  void print(std::size_t k, const std::string& text) {
    begin_below_the_notice();
    bar_.print(title_of(k) + ": " + text);
  }

  void end(std::size_t k, const std::string& outcome, bool is_finished) {
    running_.erase(k);
    finished_ += is_finished ? 1 : 0;
    note();
    draw();
    print(k, outcome);
    if (is_finished) bar_.advance(runs_[k].updates - std::exchange(made_[k], runs_[k].updates));
  }

  std::size_t finished() const { return finished_; }
  /// The state of the run's training, as it was reported last.
  const std::string& training(std::size_t k) const { return texts_[k]; }

 private:
  static std::int64_t updates_of(const std::vector<ParallelRun>& runs) {
    std::int64_t updates = 0;
    for (const ParallelRun& run : runs) updates += run.updates;
    return updates;
  }

  std::string title_of(std::size_t k) const { return fmt::format("[{}] {}", runs_[k].only, runs_[k].title); }

  void note() { bar_.note(fmt::format("{} of {} finished", finished_, counted(runs_.size(), "run"))); }

  void draw() {
    begin_below_the_notice();
    std::vector<std::string> rows;
    for (const auto& [k, text] : running_) rows.push_back(title_of(k) + " · " + text);
    bar_.rows(std::move(rows));
    bar_.advance(0);
  }

  /// After Ctrl-C the signal's handler has printed a line where the bar was.
  void begin_below_the_notice() {
    if (interrupted() && !std::exchange(has_seen_notice_, true)) bar_.begin_anew();
  }

  const std::vector<ParallelRun>& runs_;
  std::vector<std::int64_t> made_;  ///< updates
  std::vector<std::string> texts_;  ///< of the trainings
  std::map<std::size_t, std::string> running_;
  std::size_t finished_ = 0;
  bool has_seen_notice_ = false;
  Progress bar_;
};

/// Why the child failed: the signal that killed it, or its error.
std::string failure_of(const Call& call, int status) {
  const std::string where = fmt::format("its output is in {}", call.output.string());
  if (status < 0) return fmt::format("killed by {}; {}", signal_name(-status), where);
  const std::string line = last_line(call);
  return fmt::format("{}; {}", line.empty() ? fmt::format("ended with status {}", status) : line, where);
}

/// The message of a training that diverged, from its result; empty for another one.
std::string divergence_of(const ParallelRun& run) {
  return load_json(run.directory / "result.json").value("failure", "");
}

}  // namespace

RunFailures make_parallel_runs(const std::vector<ParallelRun>& runs, Shares shares,
                               const std::string& how_to_continue) {
  std::vector<Call> calls;
  for (const ParallelRun& run : runs)
    calls.push_back({run.title, run.words, run.directory / "output.txt", shares.threads});
  auto index = [&](const Call& call) { return static_cast<std::size_t>(&call - calls.data()); };
  RunFailures failed;
  ParallelProgress progress(runs);
  std::size_t begun = 0;
  auto next = [&]() -> const Call* {
    if (begun == calls.size()) return nullptr;
    progress.begin(begun);
    return &calls[begun++];
  };
  auto ended = [&](const Call& call, int status) {
    const std::size_t k = index(call);
    if (status == 0) {
      const std::string divergence = divergence_of(runs[k]), training = progress.training(k);
      return progress.end(k, !divergence.empty() ? divergence : "finished" + (training.empty() ? "" : ": " + training),
                          true);
    }
    if (interrupted()) {
      const std::string stopped = status < 0 ? "stopped" : last_line(call);  // < 0: outside a training
      return progress.end(k, stopped.substr(0, stopped.find(';')), false);
    }
    progress.end(k, "failed: " + (failed[runs[k].only] = failure_of(call, status)), false);
  };
  run_calls(shares.jobs, next, ended,
            [&](const Call& call, const ProgressReport& report) { progress.report(index(call), report); });
  if (interrupted())
    throw Interrupted(fmt::format("stopped with {} of {} finished; {}", progress.finished(),
                                  counted(runs.size(), "run"), how_to_continue));
  return failed;
}

}  // namespace fovea
