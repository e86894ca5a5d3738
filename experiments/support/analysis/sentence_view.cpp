#include "experiments/support/analysis/sentence_view.h"

#include "tensor/error.h"

namespace fovea {

std::string SentenceView::text() const {
  std::string to = pair.target;
  if (!predicted.empty()) to = (to.empty() ? "" : "label " + to + ", ") + "predicted " + predicted;
  return pair.source + (pair.source.empty() || to.empty() ? "" : " → ") + to;
}

const AttentionView& SentenceView::chosen(const AttentionChoice& choice) const {
  const auto find = [&](const std::string& place, bool plain) -> const AttentionView* {
    for (const AttentionView& view : attentions)
      if (name_of(view.place) == place && view.layer == choice.layer && view.number == choice.number &&
          (plain || view.method != "global"))
        return &view;
    return nullptr;
  };
  for (bool plain : {false, true})
    for (const char* place : {"cross", "encoder", "decoder"})
      if (choice.place == "any" || choice.place == place)
        if (const AttentionView* view = find(place, plain)) return *view;
  std::string titles;
  for (const AttentionView& view : attentions) titles += (titles.empty() ? "" : "; ") + view.title();
  std::string flags;  // those that are not at their defaults
  if (choice.place != "any") flags += " --place " + choice.place;
  if (choice.layer != 1) flags += fmt::format(" --layer {}", choice.layer);
  if (choice.number != 1) flags += fmt::format(" --sub-layer {}", choice.number);
  fail("{}: the model has no such attention; it has {}", flags.empty() ? "--layer 1" : flags.substr(1), titles);
}

}  // namespace fovea
