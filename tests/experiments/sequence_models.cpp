// The papers' configurations have the papers' numbers of parameters (methods.md, section 14).
#include "experiments/support/models/sequence_models.h"

#include <boost/test/unit_test.hpp>

#include "experiments/support/models/sequence_options.h"
#include "experiments/support/program/program.h"
#include "nn/schedule.h"
#include "nn/shapes_only.h"
#include "tensor/storage.h"
#include "tensor/support/machine_memory.h"
#include "tests/refusal.h"

using namespace fovea;

namespace {

SequenceModelOptions parsed(std::vector<std::string> flags) {
  std::vector<const char*> arguments{"test"};
  for (const std::string& flag : flags) arguments.push_back(flag.c_str());
  SequenceModelOptions options;
  Cli cli("test", int(arguments.size()), arguments.data());
  cli.add(options);
  cli.parse();
  return options;
}

std::int64_t count(const std::vector<std::string>& flags, std::int64_t source, std::int64_t target) {
  ShapesOnly instead_of_models;
  return parsed(flags).make(source, target)->parameter_count();
}

std::string refusal(const std::vector<std::string>& flags, std::int64_t source = 50, std::int64_t target = 50) {
  return message_of([&] { parsed(flags).make(source, target); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_models)

BOOST_AUTO_TEST_CASE(nguyen_et_al) {
  auto parameters = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--preset", "nguyen-base"});
    return count(flags, 32768, 32768);
  };
  BOOST_TEST(parameters({}) == 60915712);
  BOOST_TEST(parameters({"--attention", "window(use=additive)"}) == 70371328);
  BOOST_TEST(parameters({"--attention", "window"}) == 67219456);
  BOOST_TEST(parameters({"--attention", "window(use=additive)", "--decoder-attention", "window(use=additive)",
                         "--cross-attention", "window(use=additive)"}) == 89282560);
  const std::string encoder = "window(use=additive,layers=1-3)", decoder = "window(layers=1-3)",
                    cross = "window(use=additive,segment=5,layers=1-3)";
  BOOST_TEST(parameters({"--attention", encoder, "--decoder-attention", decoder}) == 68795392);
  BOOST_TEST(parameters({"--cross-attention", cross}) == 65643520);
  BOOST_TEST(parameters({"--attention", encoder, "--decoder-attention", decoder, "--cross-attention", cross}) ==
             73523200);
  BOOST_TEST(parameters({"--layers", "7"}) == 68272128);
  BOOST_TEST(parameters({"--layers", "8"}) == 75628544);
}

BOOST_AUTO_TEST_CASE(yang_et_al) {
  auto added = [](const std::string& preset, std::vector<std::string> flags) {
    std::int64_t plain = count({"--preset", preset}, 1000, 1100);
    flags.insert(flags.begin(), {"--preset", preset});
    return count(flags, 1000, 1100) - plain;
  };
  BOOST_TEST(added("yang-base", {"--attention", "gaussian(layers=1-3)"}) == 812592);
  BOOST_TEST(added("yang-big", {"--attention", "gaussian(layers=1-3)"}) == 3247200);
  BOOST_TEST(added("yang-base", {"--attention", "gaussian(window=layer,layers=1-3)"}) == 1600560);
  BOOST_TEST(added("yang-big", {"--attention", "gaussian(window=layer,layers=1-3)"}) == 6396000);
  BOOST_TEST(added("yang-base", {"--attention", "relative(clip=16)"}) == 25344);
  BOOST_TEST(added("yang-base", {"--attention", "relative(clip=16)", "--decoder-attention", "relative(clip=16)"}) ==
             50688);
}

BOOST_AUTO_TEST_CASE(fan_et_al) {
  BOOST_TEST(count({"--preset", "fan-small"}, 10152, 10152) == 36770840);
  BOOST_TEST(count({"--preset", "fan-small", "--block-order", "attention > feed-forward", "--feed-forward-dim", "1024"},
                   10152, 10152) == 36743168);
  auto millions = [](const std::vector<std::string>& flags) { return (count(flags, 37000, 37000) + 5000) / 10000; };
  BOOST_TEST(millions({"--preset", "fan-base"}) == 6314);
  BOOST_TEST(millions({"--preset", "nguyen-base", "--norm", "pre"}) == 6308);
  BOOST_TEST(millions({"--preset", "fan-big"}) == 21434);
}

BOOST_AUTO_TEST_CASE(root_mean_square_norms_have_no_biases) {
  // of two layers: two norms in each of the encoder and three of the decoder, and a last one of both stacks
  BOOST_TEST(count({"--norm-kind", "layer"}, 50, 50) == count({}, 50, 50));
  BOOST_TEST(count({"--norm-kind", "rms"}, 50, 50) == count({}, 50, 50) - (2 * 2 + 2 * 3 + 2) * 128);
  BOOST_TEST(refusal({"--norm-kind", "batch"}) == "--norm-kind: 'batch' is none of layer, rms");
}

BOOST_AUTO_TEST_CASE(a_preset_sets_options_that_a_program_has) {
  for (const std::string& name : preset_names()) {
    SequenceOptions options;
    const char* arguments[] = {"translate"};
    Cli cli("translate", 1, arguments);
    cli.add(options);
    BOOST_CHECK_NO_THROW(cli.configure(preset_values(name), name));
  }
}

BOOST_AUTO_TEST_CASE(the_rate_of_a_preset_of_our_own_falls_to_0) {
  int number = 0;
  for (const std::string& name : preset_names()) {
    if (!name.starts_with("mini") && !name.starts_with("smoke") && !name.starts_with("tiny")) continue;
    const Json preset = preset_values(name);
    const std::int64_t updates = preset.value("updates", std::int64_t{1000});
    const Schedule schedule = Schedule::parse(preset.at("schedule").get<std::string>(), updates);
    BOOST_TEST(schedule.rate(updates - 1) < 0.01 * schedule.rate(updates / 2), name);
    ++number;
  }
  BOOST_TEST(number == 6);
}

BOOST_AUTO_TEST_CASE(counting_takes_no_memory) {
  reset_peak();
  const std::size_t before = allocator_statistics().bytes_in_use;
  BOOST_TEST(count({"--preset", "yang-big"}, 1000, 1100) > 100'000'000);  // 400 MB
  BOOST_TEST(allocator_statistics().peak_bytes - before < 1'000'000u);
}

BOOST_AUTO_TEST_CASE(every_preset_makes_a_model) {
  for (const char* preset : {"mini", "mini-rnn", "smoke", "smoke-rnn", "fan-summarization", "shu-word", "shu-char"})
    BOOST_TEST(count({"--preset", preset}, 100, 100) > 0);
  // Shu & Nakayama, section 5.1, matrix by matrix
  std::int64_t lstm = 4 * (1000 * 1000 + 1000 * 1000 + 1000), decoder = 4 * (3000 * 1000 + 1000 * 1000 + 1000);
  std::int64_t attention = 1000 * 1000 + 2000 * 1000 + 1000, first = 1000 * 1000 + 1000;
  std::int64_t read_out = 1000 * 600 + 600 + 600 * 70 + 70;
  BOOST_TEST(count({"--preset", "shu-word"}, 80, 70) == 150 * 1000 + 2 * lstm + decoder + attention + first + read_out);
}

BOOST_AUTO_TEST_CASE(the_memory_of_wide_heads_is_counted) {
  const std::vector<std::string> flags{"--layers", "3", "--model-dim", "1024", "--heads", "1024"};
  parsed(flags).require_memory(10, 1);
  auto wide = flags;
  wide.insert(wide.end(), {"--head-dim", "65536"});
  BOOST_CHECK_THROW(parsed(wide).require_memory(10, 1), Error);  // 3 · 4 · 1024 · 1024 · 65536 numbers are 3 TiB
}

BOOST_AUTO_TEST_CASE(the_use_of_a_trained_model_needs_a_quarter_of_the_memory_of_its_training) {
  SequenceOptions options;
  options.model.model_dim = 8192;
  const double bytes_of_layer = 4.0 * 8192 * (4 * 8192 + 2 * 256);
  options.model.layers = int(double(std::min(machine_memory().total, std::size_t{1} << 42)) / 2 / bytes_of_layer) + 1;
  BOOST_TEST(message_of([&] { options.check(); }).starts_with("--model-dim 8192, --feed-forward-dim 256, --layers "));
  options.trained.directory = "runs/a";
  options.check();
}

BOOST_AUTO_TEST_CASE(block_orders_are_lists_of_sub_layers) {
  auto parts = [](const std::vector<std::string>& flags) {
    std::string names;
    auto model = parsed(flags).make(20, 20);
    for (const ModuleCount& part : model->module_counts())
      for (const char* prefix : {"encoder.0.", "decoder.0."})
        if (part.name.starts_with(prefix) && part.name.find('.', 10) == std::string::npos &&
            !part.name.ends_with("norm"))
          names += part.name.substr(0, 1) + ":" + part.name.substr(10) + " ";
    return names;
  };
  const std::vector<std::string> small{"--model-dim", "8", "--heads", "2", "--layers", "1", "--block-order"};
  auto order = [&](const std::string& blocks, const std::string& where) {
    std::vector<std::string> flags = small;
    flags.insert(flags.end(), {blocks, "--block-order-in", where});
    return parts(flags);
  };
  BOOST_TEST(order("attention > feed-forward", "both") ==
             "e:attention e:feed_forward d:attention d:cross d:feed_forward ");
  BOOST_TEST(order("C1", "encoder") ==
             "e:feed_forward e:attention e:feed_forward_2 d:attention d:cross d:feed_forward ");
  BOOST_TEST(order("C5", "decoder") == "e:attention e:feed_forward d:attention d:attention_2 d:cross d:feed_forward ");
  BOOST_TEST(order("cross > attention > feed-forward", "both") ==
             "e:attention e:feed_forward d:cross d:attention d:feed_forward ");
  // which attention is which
  SequenceModelOptions options = parsed({"--block-order", "C4", "--layers", "1"});
  bool masked_second = false;
  for (const NamedParameter& p : options.make(20, 20)->parameters())
    masked_second |= p.name == "encoder.0.attention_2.dman.weight";
  BOOST_TEST(masked_second);
}

BOOST_AUTO_TEST_CASE(parameters_are_listed_by_part) {
  std::string table = parameter_table(*parsed({"--model-dim", "8", "--layers", "1", "--heads", "2"}).make(20, 20));
  for (const char* part : {"encoder.0.attention.query", "decoder.0.cross", "target_embedding", "total"})
    BOOST_TEST(table.find(part) != std::string::npos, table);
}

BOOST_AUTO_TEST_CASE(what_does_not_go_together_is_refused_with_its_flag) {
  BOOST_TEST(refusal({"--preset", "nguyen-bass"}) ==
             "--preset: there is no preset 'nguyen-bass'; there are fan-base, fan-big, fan-small, "
             "fan-summarization, mini, mini-rnn, nguyen-base, nguyen-tiny, shu-char, shu-word, smoke, "
             "smoke-classifier, smoke-rnn, "
             "tiny-rnn, yang-base, yang-big, and any .json file; did you mean 'nguyen-base'?");
  BOOST_TEST(refusal({"--tied", "all"}, 50, 60) ==
             "--tied all: source and target need one vocabulary, but have 50 and 60 tokens; use --tied decoder");
  BOOST_TEST(refusal({"--heads", "3"}) == "--heads 3: must divide --model-dim 128");
  BOOST_TEST(refusal({"--cross-attention", "relative"}).starts_with("--cross-attention: relative: "));
  BOOST_TEST(refusal({"--cross-attention", "global"}, 0) ==
             "--cross-attention: a language model has no source; leave it out");
  BOOST_TEST(refusal({"--attention", "gaussian", "--decoder-attention", "relative"}, 0) ==
             "--decoder-attention: a language model has one attention; leave out this flag or --attention");
  BOOST_TEST(refusal({"--decoder-attention", "gausian"}).starts_with("--decoder-attention: 'gausian'"));
  BOOST_TEST(refusal({"--block-order", "attention > > feed-forward"}) ==
             "--block-order: 'attention > > feed-forward': a sub-layer is missing before or after '>'");
  BOOST_TEST(refusal({"--architecture", "rnn", "--cross-attention", "global"}) ==
             "--architecture rnn: has one attention, --attention; leave out --decoder-attention and --cross-attention");
}

BOOST_AUTO_TEST_SUITE_END()
