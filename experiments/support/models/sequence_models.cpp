#include "experiments/support/models/sequence_models.h"

#include <algorithm>
#include <map>

#include "experiments/support/program/program.h"
#include "experiments/support/report/table.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// The orders of Fan et al. 2021, section 4.3, by their names.
const std::map<std::string, std::string> named_orders{{"C1", "feed-forward > attention > feed-forward"},
                                                      {"C2", "attention > attention > feed-forward"},
                                                      {"C3", "dman > dman > feed-forward"},
                                                      {"C4", "attention > dman > feed-forward"},
                                                      {"C5", "dman > attention > feed-forward"}};

/// The parts of a --block-order that '>' separates, without spaces around them. Throws Error for an empty part.
std::vector<std::string> parts_of_order(const std::string& order) {
  const auto named = named_orders.find(order);
  std::vector<std::string> parts;
  for (const std::string_view part : split_columns(named == named_orders.end() ? order : named->second, '>')) {
    parts.push_back(trimmed(part));
    require(!parts.back().empty(), "--block-order: '{}': a sub-layer is missing before or after '>'", order);
  }
  return parts;
}

}  // namespace

SequenceModelOptions::SequenceModelOptions() {
  feed_forward_dim = 256;
  dropout = 0;
}

void SequenceModelOptions::add_to(Cli& cli) {
  cli.group("Model");
  preset_flag(cli, preset);
  cli.choice("--architecture", architecture,
             {{"transformer", Architecture::transformer}, {"rnn", Architecture::recurrent}},
             "kind of model; in an rnn --model-dim is the width of the decoder and of each direction of the encoder");
  add_sizes(cli, "embeddings and the outputs of blocks",
            "in an rnn the only attention, classic(additive) by default; in a language model that of the decoder");
  cli.rare("--encoder-layers", encoder_layers, "layers of the encoder alone; 0: --layers").range(0, 1000);
  cli.rare("--decoder-layers", decoder_layers, "layers of the decoder alone; 0: --layers").range(0, 1000);
  cli.rare("--attention-dropout", attention_dropout, "dropout of attention weights").range(0, 0.99);
  cli.option("--decoder-attention", decoder_attention, "self-attention of a Transformer's decoder");
  cli.option("--cross-attention", cross_attention, "attention of a Transformer's decoder over the source");

  cli.group("Transformer");
  cli.rare("--block-order", block_order,
           "the sub-layers of a layer; attention (--attention, --decoder-attention), feed-forward, cross (if it is not "
           "named: before the last feed-forward) or the specification of another attention, as in \"dman > "
           "attention > feed-forward\"; or C1 to C5 of Fan et al. 2021");
  cli.choice("--block-order-in", block_order_in,
             {{"encoder", Stacks::encoder}, {"decoder", Stacks::decoder}, {"both", Stacks::both}},
             "the stacks with the order of --block-order; the other stack has attention > feed-forward")
      .rare();
  add_blocks(cli);
  cli.rare("--feed-forward-dropout", feed_forward_dropout, "dropout inside the feed-forward blocks").range(0, 0.99);
  add_inputs(cli);
  cli.choice("--tied", tied, {{"none", Tied::none}, {"decoder", Tied::decoder}, {"all", Tied::all}},
             "tables of parameters that are shared; decoder: target embedding and output; all: source embedding too")
      .rare();
  cli.rare("--output-bias", output_bias, "add a bias to the logits of a Transformer");

  cli.group("Recurrent model");
  cli.rare("--embedding-dim", embedding_dim, "width of an rnn's embeddings").range(1, 65536);
  cli.rare("--readout-dim", readout_dim, "width of an rnn's layer before the logits; 0: no such layer").range(0, 65536);
  cli.choice("--query", query, {{"previous", QueryState::previous}, {"current", QueryState::current}},
             "the rnn decoder's state that is the query; previous: of the step before (Bahdanau et al. 2015), current: "
             "of this step (Luong et al. 2015)")
      .rare();
  cli.rare("--bidirectional", bidirectional, "the rnn encoder reads in both directions");
  cli.rare("--input-feeding", input_feeding, "with --query current: the readout is part of the next step's input");
}

void SequenceModelOptions::require_memory(std::int64_t vocabulary, int copies) const {
  const double d = double(model_dim), f = double(feed_forward_dim),
               of_heads = head_dim > 0 ? double(heads) * double(head_dim) : d;
  const bool is_transformer = architecture == Architecture::transformer;
  // Transformer: four projections and the feed-forward block; LSTM: four gates of input and state
  const double of_a_layer = is_transformer ? d * (4 * of_heads + 2 * f) : 8 * d * d;
  const double parameters = std::max({layers, encoder_layers, decoder_layers}) * of_a_layer +
                            double(vocabulary) * (is_transformer ? d : double(embedding_dim));
  TransformerFlags::require_memory(parameters, copies);
}

std::unique_ptr<SequenceModel> SequenceModelOptions::make(std::int64_t source_vocabulary,
                                                          std::int64_t vocabulary) const {
  return architecture == Architecture::transformer ? make_transformer(source_vocabulary, vocabulary)
                                                   : make_recurrent(source_vocabulary, vocabulary);
}

TransformerOptions SequenceModelOptions::stack(int own_layers) const {
  TransformerOptions options = *this;
  if (own_layers > 0) options.layers = own_layers;
  return options;
}

std::string SpecifiedSubLayer::text() const {
  if (kind == SubLayer::Kind::feed_forward) return "feed-forward";
  return (kind == SubLayer::Kind::cross ? "source: " : "") + specification;
}

std::vector<SpecifiedSubLayer> SequenceModelOptions::sub_layers(Place stack, bool has_source) const {
  using Kind = SubLayer::Kind;
  const auto or_plain = [](const std::string& given, const char* plain) { return given.empty() ? plain : given; };
  const bool is_decoder = stack == Place::decoder;
  if (!is_decoder && !has_source) return {};
  if (architecture == Architecture::recurrent) {
    if (!is_decoder) return {};
    return {{Kind::cross, or_plain(attention, "classic(additive)"), "--attention"}};
  }
  const bool uses_own = is_decoder && (has_source || !decoder_attention.empty());
  const SpecifiedSubLayer own{Kind::attention, or_plain(uses_own ? decoder_attention : attention, "global"),
                              is_decoder ? "--decoder-attention" : "--attention"};
  const SpecifiedSubLayer cross{Kind::cross, or_plain(cross_attention, "global"), "--cross-attention"};
  const bool is_ordered = block_order_in == Stacks::both || (block_order_in == Stacks::decoder) == is_decoder;
  const bool crosses = is_decoder && has_source;
  std::vector<SpecifiedSubLayer> layers;
  bool names_cross = false;
  for (const std::string& part : parts_of_order(is_ordered ? block_order : "attention > feed-forward")) {
    if (part == "cross") {
      names_cross = true;
      if (crosses) layers.push_back(cross);
    } else {
      layers.push_back(part == "feed-forward" ? SpecifiedSubLayer{}
                       : part == "attention"  ? own
                                              : SpecifiedSubLayer{Kind::attention, part, "--block-order"});
    }
  }
  if (!crosses || names_cross) return layers;
  // an order that does not name the attention over the source has it before the last feed-forward layer
  const auto last = std::find_if(layers.rbegin(), layers.rend(),
                                 [](const SpecifiedSubLayer& layer) { return layer.kind == Kind::feed_forward; });
  layers.insert(last == layers.rend() ? layers.end() : last.base() - 1, cross);
  return layers;
}

std::unique_ptr<SequenceModel> SequenceModelOptions::make_transformer(std::int64_t source_vocabulary,
                                                                      std::int64_t vocabulary) const {
  require_heads();
  require(tied != Tied::all || source_vocabulary == 0 || source_vocabulary == vocabulary,
          "--tied all: source and target need one vocabulary, but have {} and {} tokens; use --tied decoder",
          source_vocabulary, vocabulary);
  const bool translates = source_vocabulary > 0;
  require(translates || cross_attention.empty(), "--cross-attention: a language model has no source; leave it out");
  require(translates || attention.empty() || decoder_attention.empty() || attention == decoder_attention,
          "--decoder-attention: a language model has one attention; leave out this flag or --attention");
  auto made = [&](Place place) {
    SubLayers layers;
    for (const SpecifiedSubLayer& one : sub_layers(place, translates))
      one.kind == SubLayer::Kind::feed_forward
          ? layers.push_back({one.kind})
          : layers.push_back({one.kind, flagged_attention(one.flag, one.specification)});
    return layers;
  };
  TransformerModelOptions options{.source_vocabulary = source_vocabulary,
                                  .vocabulary = vocabulary,
                                  .encoder = stack(encoder_layers),
                                  .decoder = stack(decoder_layers),
                                  .tied = tied,
                                  .positions = positions,
                                  .longest = longest,
                                  .embedding_norm = embedding_norm,
                                  .embedding = {.padding = 0, .scale = embedding_scale},
                                  .output_bias = output_bias};
  return std::make_unique<TransformerModel>(options, made(Place::encoder), made(Place::decoder));
}

std::unique_ptr<SequenceModel> SequenceModelOptions::make_recurrent(std::int64_t source_vocabulary,
                                                                    std::int64_t vocabulary) const {
  require(source_vocabulary > 0, "--architecture rnn: only for encoder-decoders; language models are transformers");
  require(head_dim == 0, "--architecture rnn: its heads are parts of its states; leave out --head-dim");
  require(recompute == Recompute::none, "--recompute layers: an rnn has no Transformer layers; leave it out");
  require(decoder_attention.empty() && cross_attention.empty(),
          "--architecture rnn: has one attention, --attention; leave out --decoder-attention and --cross-attention");
  require(encoder_layers == decoder_layers, "--encoder-layers {}: must equal --decoder-layers {} in an rnn",
          encoder_layers, decoder_layers);
  return std::make_unique<RecurrentModel>(
      RecurrentModelOptions{.source_vocabulary = source_vocabulary,
                            .vocabulary = vocabulary,
                            .embedding_dim = embedding_dim,
                            .dim = model_dim,
                            .layers = encoder_layers > 0 ? encoder_layers : layers,
                            .heads = heads,
                            .query = query,
                            .bidirectional = bidirectional,
                            .input_feeding = input_feeding,
                            .readout_dim = query == QueryState::previous ? readout_dim : 0,
                            .dropout = dropout,
                            .attention_dropout = attention_dropout},
      flagged_attention("--attention", sub_layers(Place::decoder, true).front().specification));
}

std::string parameter_table(const Module& model) {
  Table table({"part", "parameters"});
  for (const ModuleCount& part : model.module_counts())
    if (!part.name.empty()) table.row({part.name, part.parameters});
  table.rule().row({"total", model.parameter_count()});
  return table.text();
}

}  // namespace fovea
