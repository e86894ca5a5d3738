/// How the learning rate changes during training.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace fovea {

/// A learning-rate schedule, read from a short description: "inverse_sqrt(peak=7e-4, warmup=4000)". In the formulas u
/// is the number of updates made so far, 0, 1, …, and e the epoch, 1, 2, …
///
///   constant      rate · min(1, (u + 1) / warmup)
///   inverse_sqrt  init + u · (peak − init) / warmup for u < warmup, then peak · sqrt(warmup / u)
///   noam          scale · dim^-1/2 · min((u + 1)^-1/2, (u + 1) · warmup^-3/2)       (Vaswani et al. 2017)
///   cosine        from rate to floor along half a cosine over `updates` (0: the whole training), after a warm-up as of
///                 constant
///   halving       rate, halved at the start of epoch `epoch` and of every `every`-th after it; with update=u0 in
///                 place of epoch= the same is counted in updates
class Schedule {
 public:
  /// For a training of `updates`. Throws Error that says where the text is wrong and what would be right. Keys that are
  /// left out get their defaults.
  static Schedule parse(std::string_view text, std::int64_t updates = 100000);

  /// The learning rate of the next update, after `updates` of them, in epoch `epoch`.
  double rate(std::int64_t updates, std::int64_t epoch = 1) const;

  /// The description with every key: parse() of it gives the same schedule.
  std::string str() const;

  struct Kind;

 private:
  const Kind* kind_ = nullptr;
  std::map<std::string, double> values_;
};

/// One line per kind of schedule, with its keys and their defaults: for --help.
std::string schedule_help();

}  // namespace fovea
