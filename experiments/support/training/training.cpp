#include "experiments/support/training/training.h"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <omp.h>

#include "experiments/support/program/device_flag.h"
#include "experiments/support/program/files.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/hugging_face_parameters.h"
#include "nn/checkpoint.h"
#include "tensor/cpu/parallel.h"
#include "tensor/format/safetensors.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/map.h"
#include "tensor/reduce.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

/// The schedules with their defaults, one after the other.
std::string schedules() {
  const std::string lines = schedule_help();
  return fmt::format("{}", fmt::join(split_columns(std::string_view(lines).substr(0, lines.size() - 1), '\n'), "; "));
}

}  // namespace

void TrainingOptions::add_to(Cli& cli) {
  cli.group("Training");
  cli.option("--updates", updates, "optimizer steps; with --resume, more steps continue a finished run").at_least(1);
  cli.option("--schedule", schedule,
             "schedule of the learning rate; a cosine with updates=0 ends with the training: " + schedules());
  cli.option("--rate", rate, "peak of the learning rate, in place of the schedule's").range(0, 1e6);
  cli.rare("--clip", clip, "largest norm of the gradient; 0: no limit").at_least(0);
  cli.choice(
         "--optimizer", optimizer.kind,
         {{"adam", OptimizerKind::adam},
          {"adamw", OptimizerKind::adamw},
          {"sgd", OptimizerKind::sgd},
          {"lion", OptimizerKind::lion},
          {"adafactor", OptimizerKind::adafactor}},
         "the rule of an update; lion needs a rate 3 to 10 times smaller than adamw; adafactor's rate is relative to "
         "the size of each parameter")
      .rare();
  cli.rare("--weight-decay", optimizer.weight_decay,
           "weight decay; adam and sgd add it to the gradient, the others shrink the parameters")
      .range(0, 1);
  cli.choice("--decayed", optimizer.decayed, {{"all", Decayed::all}, {"matrices", Decayed::matrices}},
             "the parameters that --weight-decay applies to; matrices: not norms, biases and other vectors")
      .rare();
  cli.rare("--momentum", optimizer.momentum, "momentum of --optimizer sgd; without: 0").range(0, 0.9999);
  cli.option("--evaluate-every", evaluate_every, "steps between evaluations on the development set").at_least(1);
  cli.rare("--patience", patience, "end the training after this many evaluations without a better score; 0: never")
      .at_least(0);
  cli.option("--average", average, "use the mean of the models of this many last evaluations, or with 0 the best model")
      .range(0, 1000);
  cli.rare("--keep", keep, "keep the models of this many last evaluations, for --average-kept").range(0, 1000);
  cli.rare("--beta1", optimizer.beta1, "decay of the mean of gradients, of adam, adamw and lion; without: 0.9")
      .range(0, 0.9999);
  cli.rare(
         "--beta2", optimizer.beta2,
         "decay of the mean of squared gradients, of adam and adamw; without: 0.98; of lion: of the mean that is kept; "
         "without: 0.99")
      .range(0, 0.999999);
  cli.rare("--epsilon", optimizer.epsilon, "of adam and adamw: added to the root of the mean square; without: 1e-9")
      .range(1e-30, 1);  // a smaller one may count as 0 in f32, and 0 / 0 is NaN
  cli.rare("--checkpoint-every", checkpoint_every, "steps between checkpoints").at_least(1);
  cli.option("--seed", seed, "seed of initial values, order of batches and dropout");
  cli.rare("--precision", precision,
           "precision of matrix products; bf16 rounds the operands of large products on the CPU; on a GPU it may round "
           "those of any product")
      .one_of({"f32", "bf16"});
  device_flag(cli, device);
  cli.rare("--threads", threads, "threads of a process; 0: one per core, shared by the processes of this machine")
      .range(0, 1024)
      .unsaved();
  cli.rare("--processes", processes,
           "processes of this machine that train together: each computes its share of the batches of an update "
           "(--accumulate), with the same result as one process; needs Open MPI")
      .range(1, 1024)
      .unsaved();
}

void TrainingOptions::check() const {
  with_flag("--schedule", [&] { Schedule::parse(schedule); });
  with_flag("--optimizer", [&] { optimizer.check(); });
  kernels(device_of(device));  // throws where there is no GPU
}

Schedule TrainingOptions::learning_rate() const {
  const Schedule own = Schedule::parse(schedule, updates);
  return rate ? own.with_peak(*rate) : own;
}

std::string TrainingOptions::warmup_warning() const {
  const Schedule own = learning_rate();
  if (own.warmup() <= double(updates)) return {};
  std::string shorter = own.str();
  const std::size_t at = shorter.find("warmup=") + 7;
  shorter.replace(at, shorter.find_first_of(",)", at) - at, std::to_string(std::max<std::int64_t>(updates / 10, 1)));
  return fmt::format(
      "warning: the warm-up of {} updates is longer than the training of {}; a shorter one: --schedule \"{}\"",
      own.warmup(), updates, shorter);
}

void TrainingOptions::apply() const {
  check();
  omp_set_num_threads(threads > 0 ? threads : threads_of_a_process());
  set_matmul_precision(precision == "bf16" ? Precision::bf16 : Precision::f32);
  set_flush_denormals(true);  // tails of Gaussians and of softmax are denormal, and slow
}

namespace {

using TensorList = std::vector<std::pair<std::string, Tensor>>;

void append(TensorList& list, const std::string& prefix, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) list.emplace_back(prefix + name, tensor);
}

NamedTensors with_prefix(const std::string& prefix, const TensorList& all) {
  NamedTensors found;
  for (const auto& [name, tensor] : all)
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = tensor;
  return found;
}

/// The mean of the tensors with the same names. The sums are in the order of the files.
NamedTensors mean_of_models(const std::vector<std::filesystem::path>& files) {
  NamedTensors mean;
  for (const std::filesystem::path& file : files)
    for (auto& [name, tensor] : read_safetensors(file).tensors) {
      const double share = 1 / double(files.size());
      Tensor part = map(Multiply{}, tensor, Tensor::full({}, share, tensor.dtype()));
      mean[name] = mean.contains(name) ? map(Add{}, mean[name], part) : part;
    }
  return mean;
}

/// The models that a run kept, by their updates.
std::map<std::int64_t, std::filesystem::path> kept_models(const std::filesystem::path& run) {
  std::map<std::int64_t, std::filesystem::path> models;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model-") || !name.ends_with(".safetensors")) continue;
    if (const auto update = leading_number<std::int64_t>(std::string_view(name).substr(6)))
      models[*update] = entry.path();
  }
  return models;
}

Safetensors readable_checkpoint(const std::string& path) {
  try {
    return read_safetensors(path);
  } catch (const Error& error) {
    fail("{}; if you delete this file, the run begins anew", error.what());
  }
}

Json metadata(const Safetensors& file, const std::string& path, const char* key) {
  auto found = file.metadata.find(key);
  require(found != file.metadata.end(), "{}: no '{}' in the metadata; this is not a checkpoint of a run", path, key);
  return parse_json(found->second);
}

/// Whether a parameter is not finite, or the parameters are so large that the next loss would overflow.
bool has_lost_its_parameters(const Module& model) {
  constexpr double largest_norm = 1e8;
  std::vector<Tensor> values;
  for (const NamedParameter& parameter : model.parameters()) values.push_back(parameter.variable.value());
  return !(global_norm(values).item() < largest_norm);
}

/// Throws Error, with the name of the tensor, if it has a number that is not finite.
void require_finite(const std::string& source, const std::string& name, const Tensor& values) {
  if (!is_float(values.dtype()) || std::isfinite(global_norm({&values, 1}).item())) return;
  const std::vector<double> all = values.to_vector<double>();
  const auto bad = std::ranges::find_if(all, [](double value) { return !std::isfinite(value); });
  if (bad == all.end()) return;  // the norm overflows
  fail("{}: {} {} has {} at place {} (from 0); no model can be trained or used with it", source, name, values.shape(),
       *bad, bad - all.begin());
}
void require_finite(const Module& model, const std::string& source) {
  for (const NamedParameter& parameter : model.parameters())
    require_finite(source, fmt::format("parameter '{}'", parameter.name), parameter.variable.value());
}

}  // namespace

Training::Training(const Run& run, Module& model, Optimizer& optimizer, BatchPlace& place,
                   const TrainingOptions& options)
    : run_(run), directory_(*run.directory), model_(model), optimizer_(optimizer), place_(place), options_(options) {
  for (std::int64_t k = processes().rank(); k < place.accumulate(); k += processes().size())
    micro_batches_.push_back(k);
  if (processes().size() > 1) {
    require_same_data_everywhere(directory_);
    require_same_threads();
    shared_.emplace(model.parameters(), place.accumulate());
  }
  if (is_first_ && std::filesystem::exists(directory_.checkpoint()))
    restore();
  else if (const auto result = is_first_ ? load_result(directory_.path()) : std::nullopt)
    require(!result->failure.empty(),
            "{}: the run is finished and its checkpoint is missing, without which it cannot train on; delete its "
            "result.json too to train it anew",
            directory_.checkpoint().string());
  share_restored();
  const std::string source = restored_ > 0 ? directory_.checkpoint().string() : "the initial model";
  require_finite(model_, source);
  for (const auto& [name, values] : optimizer.state())
    require_finite(source, fmt::format("the optimizer's '{}'", name), values);
  sums_ = Tensor::zeros({log_interval, 3}, DType::f64, model.device());
  log_.emplace(directory_.log(), now_.updates);
  require(!is_first_ || now_.log_checksum.empty() || file_checksum(directory_.log()) == now_.log_checksum,
          "{}: damaged: up to update {} it differs from the log that the checkpoint was written with",
          directory_.log().string(), now_.updates);
  if (restored_ > 0) begin();
  // An old result describes files that change from here on. A run that is stopped must have no result.
  const bool was_finished = is_first_ && std::filesystem::remove(directory_.file("result.json"));
  if (was_finished && now_.updates < options_.updates && out_of_patience())
    warn(fmt::format("--patience {} has ended the training after {} updates; --updates {} adds none", options_.patience,
                     now_.updates, options_.updates));
  const std::string place_of_run = run.runs > 1 ? fmt::format("[{}/{}] ", run.number, run.runs) : "";
  Progress::Options shown;
  shown.start = now_.updates;
  progress_.emplace(place_of_run + run.title(), options.updates, shown);
}

/// Calls Run::begun once.
void Training::begin() {
  if (const auto begun = std::exchange(begun_, {})) begun();
}

// ---- One update

bool Training::has_next_update() {
  if (now_.updates >= options_.updates || out_of_patience()) return false;
  if (shared_ ? shared_->is_stopped() : interrupted()) stop();
  update_began_ = SpentTime::until_now();
  epoch_ = place_.epoch();
  model_.train(true);
  if (shared_) shared_->begin();
  sums_.select(0, std::ssize(counts_)).fill(0);
  counts_.push_back(0);
  return true;
}

void Training::backward(const Variable& loss, double count, const Tensor& unsmoothed) {
  if (shared_) return shared_->add(loss, count, unsmoothed);
  fovea::backward(loss);
  add_losses(loss.value(), count, unsmoothed);
}

/// Adds to the sums of this update.
void Training::add_losses(const Tensor& loss, double count, const Tensor& unsmoothed) {
  counts_.back() += count;
  const Tensor row = sums_.select(0, std::ssize(counts_) - 1);
  for (const auto& [column, value] : {std::pair(0, &loss), std::pair(1, &unsmoothed)}) {
    Tensor sum = row.select(0, column);
    map_into(sum, Add{}, sum, value->to(DType::f64).reshape({}));
  }
}

Training::Gradient Training::gradient() {
  if (shared_) {
    const SharedUpdate::Sums all = shared_->finish();
    add_losses(all.loss, all.count, all.unsmoothed);
  }
  const Gradient gradient{.norm = gradient_norm(optimizer_.parameters()), .count = counts_.back()};
  sums_.select(0, std::ssize(counts_) - 1).select(0, 2).copy_from(gradient.norm);
  const std::int64_t update = now_.updates + 1;
  if (logs(update) || saves(update) || sums_.device() == Device::cpu) read();
  return gradient;
}

void Training::end_update(double rate, const DevScores& dev_scores) {
  ++now_.updates;
  begin();
  in_updates_ = in_updates_ + (SpentTime::until_now() - update_began_);
  if (logs(now_.updates)) {
    Json line = {{"update", now_.updates}, {"epoch", epoch_},
                 {"loss", last_->loss},    {"unsmoothed_loss", last_->unsmoothed},
                 {"learning_rate", rate},  {"gradient_norm", last_->norm}};
    if (is_evaluated(now_.updates))
      for (const DevScore& score : evaluate(dev_scores)) line["dev"][score.name] = score.value;
    log_->write(line);
  }
  progress_->note(progress_note());
  progress_->advance();
  if (saves(now_.updates)) save();
}

/// Reads the losses that the host has not read yet. Called before each checkpoint, which therefore never has a diverged
/// model, and on the CPU before the parameters change.
void Training::read() {
  if (counts_.empty()) return;
  const std::vector<double> sums = sums_.slice(0, 0, std::ssize(counts_)).to_vector<double>();
  const std::vector<double> counts = std::exchange(counts_, {});
  for (std::size_t k = 0; k < counts.size(); ++k) {
    last_ = {sums[3 * k] / counts[k], sums[3 * k + 1] / counts[k], sums[3 * k + 2] / counts[k]};
    require_convergence(++read_, *last_);
  }
}

void Training::require_convergence(std::int64_t update, const Reading& reading) {
  if (update == 1) now_.first_loss = std::abs(reading.loss);
  constexpr double most_growth = 100;
  const bool has_exploded = std::abs(reading.loss) > most_growth * (now_.first_loss + 1);
  if (std::isfinite(reading.loss) && std::isfinite(reading.norm) && !has_exploded) return;
  fail_as_diverged(update, fmt::format("the loss is {:.4g} (at the first update {:.4g}) and the norm of its gradient "
                                       "{:.4g}",
                                       reading.loss, now_.first_loss, std::abs(reading.norm)));
}

void Training::fail_as_diverged(std::int64_t update, const std::string& what) const {
  const std::string kept = saved_ > 0 ? fmt::format("; the checkpoint of update {} is kept", saved_) : "";
  const std::string clip = options_.clip > 0 ? fmt::format("a smaller --clip (here {})", options_.clip) : "a --clip";
  throw Diverged(fmt::format(
      "training diverged at update {}: {}{}. A smaller learning rate or a longer warm-up (--schedule), or {}, may "
      "help",
      update, what, kept, clip));
}

/// The last loss, the best score, and an estimate of the time left for the whole comparison from the speed of this run.
std::string Training::progress_note() const {
  std::string note = last_ ? fmt::format("loss {:.3f}", last_->loss) : "loss not read from the GPU yet";
  if (now_.best_update > 0) note += fmt::format(" · best dev {} {}", now_.score_name, rounded_text(now_.best_score, 2));
  if (run_.runs == run_.number) return note;
  const double own = (SpentTime::until_now() - began_).wall / double(now_.updates - restored_);
  const double left = own * double(options_.updates - now_.updates);
  const double later =
      run_.seconds_of_others > 0 ? run_.seconds_of_others : own * double(options_.updates * (run_.runs - run_.number));
  return note + fmt::format(" · {} left of all", duration_text(left + later));
}

// ---- Evaluation

std::vector<DevScore> Training::scores(const DevScores& dev_scores) {
  model_.train(false);
  NoGrad off;
  std::vector<DevScore> scores;
  try {
    scores = dev_scores();
  } catch (const Interrupted&) {
    progress_->finish();
    throw Interrupted(fmt::format("stopped during the evaluation; --resume {} continues after update {}",
                                  run_.resume.string(), saved_));
  }
  now_.score_name = scores.front().name;
  now_.higher_is_better = scores.front().higher_is_better;
  return scores;
}

std::vector<DevScore> Training::evaluate(const DevScores& dev_scores) {
  std::vector<DevScore> scores = this->scores(dev_scores);
  const double score = scores.front().value;
  const bool is_better = now_.higher_is_better ? score > now_.best_score : score < now_.best_score;
  ++now_.evaluations_since_best;
  if (std::isfinite(score) && (now_.best_update == 0 || is_better)) {
    now_.best_score = score;
    now_.best_update = now_.updates;
    now_.evaluations_since_best = 0;
    if (options_.average == 0) save_model(directory_.best(), true);
  }
  if (kept_count() > 0) {
    save_model(kept_model(now_.updates));
    now_.kept.push_back(now_.updates);
  }
  return scores;
}

void Training::save_model(const std::filesystem::path& file, bool with_update) const {
  if (!is_first_) return;
  TensorList tensors;
  append(tensors, "", state(model_));
  std::map<std::string, std::string> metadata;
  if (with_update) metadata["update"] = std::to_string(now_.updates);
  write_safetensors(file, tensors, metadata);
}

std::filesystem::path Training::kept_model(std::int64_t update) const {
  return directory_.file(fmt::format("model-{}.safetensors", update));
}

/// Removes the oldest models beyond those that are kept. Called after a checkpoint was written.
void Training::remove_old_models() {
  while (std::ssize(now_.kept) > kept_count()) {
    std::filesystem::remove(kept_model(now_.kept.front()));
    now_.kept.erase(now_.kept.begin());
  }
}

/// Makes the mean of the last models the best model, with its own score.
void Training::average(const DevScores& dev_scores) {
  std::vector<std::filesystem::path> last;
  for (auto kept = now_.kept.end() - std::min(options_.average, std::ssize(now_.kept)); kept != now_.kept.end(); ++kept)
    last.push_back(kept_model(*kept));
  if (is_first_) load_state(model_, mean_of_models(last), "the mean of the last models");
  share(state(model_));
  now_.best_score = scores(dev_scores).front().value;
  now_.best_update = now_.updates;
  save_model(directory_.best());
}

TrainingResult Training::finish(const DevScores& dev_scores) {
  if (now_.score_name.empty()) evaluate(dev_scores);  // resumed to end at an update before the first evaluation
  if (interrupted_anywhere()) stop();                 // during the last evaluation
  if (is_first_) require_best();
  save();
  progress_->finish();
  if (options_.average > 0) average(dev_scores);
  if (now_.best_update == 0 || !std::isfinite(now_.best_score))
    throw Diverged(
        fmt::format("training diverged: the development set's {} was not a finite number at any evaluation; a "
                    "smaller learning rate (--schedule) may help",
                    now_.score_name));
  if (is_first_) load_state(model_, directory_.best());
  share(state(model_));
  model_.train(false);
  return so_far();
}

/// A run that was killed may have left the model of a later evaluation, to which this one has not come: with a smaller
/// --patience, or numbers that another device has rounded otherwise.
void Training::require_best() const {
  if (options_.average > 0 || now_.best_update == 0) return;
  const std::filesystem::path best = directory_.best();
  const auto update = metadata(read_safetensors(best), best, "update").get<std::int64_t>();
  require(update == now_.best_update,
          "{}: has the model of update {}, from before this run was killed, and not the best one, that of update {}; "
          "--resume with the --patience (0: never), --updates, --device and --threads of before comes to it again",
          best.string(), update, now_.best_update);
}

// ---- Checkpoints

void Training::stop() {
  progress_->finish();
  save();
  throw Interrupted(fmt::format("stopped after update {}; --resume {} continues", now_.updates, run_.resume.string()));
}

/// The state with all times so far, of all processes, and the place of the next batch.
Progression Training::so_far() const {
  const SpentTime all = of_all_processes(SpentTime::until_now() - began_), updates = of_all_processes(in_updates_);
  Progression state = now_;
  state.seconds += updates.wall;
  state.update_cpu_seconds += updates.cpu;
  state.wall_seconds += all.wall;
  state.cpu_seconds += all.cpu;
  state.epoch = place_.epoch();
  state.position = place_.position();
  return state;
}

void Training::save() {
  read();
  if (has_lost_its_parameters(model_))
    fail_as_diverged(now_.updates, "a parameter is not finite, or the norm of all parameters is above 1e8");
  if (shared_) require_same_parameters(model_, now_.updates);
  begin();
  Progression state = so_far();
  saved_ = now_.updates;
  if (is_first_) {
    log_->sync();
    state.log_checksum = file_checksum(directory_.log());
    TensorList tensors;
    append(tensors, "model.", fovea::state(model_));
    append(tensors, "optimizer.", optimizer_.state());
    write_safetensors(directory_.checkpoint(), tensors,
                      {{"run", nlohmann::json(state).dump()}, {"configuration", text_of(run_.configuration)}});
  }
  remove_old_models();
  if (shared_) is_true_in_first_process([] { return true; });  // no process ends before the checkpoint is there
}

void Training::restore() {
  const std::string path = directory_.checkpoint();
  const Safetensors file = readable_checkpoint(path);
  reading_json(path, [&] {
    const Json configuration = metadata(file, path, "configuration");
    require_same_configuration(path, configuration, run_.configuration, changeable_options);
    load_state(model_, with_prefix("model.", file.tensors), path);
    optimizer_.load_state(with_prefix("optimizer.", file.tensors), path);
    continue_from(nlohmann::json(metadata(file, path, "run")).get<Progression>());
    require_known_best(path, configuration);
    for (const auto& [update, model] : kept_models(directory_.path()))
      if (update > now_.updates) std::filesystem::remove(model);
    require(now_.updates <= options_.updates, "--updates {}: the run has made {} updates already", options_.updates,
            now_.updates);
  });
}

void Training::continue_from(const Progression& state) {
  now_ = state;
  place_.seek(now_.epoch, now_.position);
  restored_ = saved_ = read_ = now_.updates;
}

/// Sends what the first process has restored to the others.
void Training::share_restored() {
  if (!shared_) return;
  const auto state = from_message<Progression>(from_first_process([&] { return as_message(now_); }));
  if (state.updates == 0) return;
  if (!is_first_) continue_from(state);
  share(fovea::state(model_));
  NamedTensors averages = optimizer_.state();
  share(averages);
  if (!is_first_) optimizer_.load_state(averages, "the first process");
}

/// The models of earlier evaluations, which the end of the training reads, must be there before it goes on. A run that
/// is killed after it wrote best.safetensors finds the same model again, unless the updates at which it is evaluated
/// have changed: then the file would be taken for the best model that the checkpoint knows.
void Training::require_known_best(const std::string& checkpoint, const Json& before) const {
  auto is_unchanged = [&](const char* key) {
    return before.value(key, Json()) == run_.configuration.value(key, Json());
  };
  const auto require_there = [&](const std::filesystem::path& model) {
    require(std::filesystem::exists(model),
            "{}: is missing, and the run cannot end without it; if you delete {}, the run begins anew", model.string(),
            checkpoint);
  };
  for (auto kept = now_.kept.end() - std::min(options_.average, std::ssize(now_.kept)); kept != now_.kept.end(); ++kept)
    require_there(kept_model(*kept));
  if (now_.best_update == 0 || options_.average > 0) return;
  require_there(directory_.best());
  const auto update = metadata(read_safetensors(directory_.best()), directory_.best(), "update").get<std::int64_t>();
  const bool comes_again =
      now_.updates < update && update <= options_.updates && is_evaluated(update) && !out_of_patience();
  require(update == now_.best_update || comes_again || (is_unchanged("updates") && is_unchanged("evaluate-every")),
          "{}: was written before {}, which has the model of update {}: resume first with the --updates and "
          "--evaluate-every that the run had",
          checkpoint, directory_.best().string(), update);
}

// ---- Trained models

void load_parameters(Module& model, const std::filesystem::path& from, std::int64_t average) {
  std::filesystem::path source = from;
  if (is_hugging_face(from)) {
    load_hugging_face(model, from);
  } else if (average == 0 || !std::filesystem::is_directory(from)) {
    if (std::filesystem::is_directory(from)) source /= "best.safetensors";
    require(source.filename() != "checkpoint.safetensors",
            "{}: is the state of a training, with that of its optimizer; the model's parameters are in {}",
            source.string(), (source.parent_path() / "best.safetensors").string());
    load_state(model, source);
  } else {
    std::vector<std::filesystem::path> models;
    for (const auto& [update, file] : kept_models(from)) models.push_back(file);
    require(std::ssize(models) >= average, "--average-kept {}: {} has {} kept models (train with --keep or --average)",
            average, from.string(), models.size());
    models.erase(models.begin(), models.end() - average);
    source = "the mean of the kept models";
    load_state(model, mean_of_models(models), source.native());
  }
  require_finite(model, source.string());
}

std::vector<DevScore> dev_scores_of(const TestResult& test) {
  std::vector<DevScore> scores;
  for (const TextScore& score : test.scores())
    scores.push_back({score.name, score.metric.value(), score.metric.higher_is_better});
  return scores;
}

}  // namespace fovea
