#include "experiments/support/report/tape_drawing.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "experiments/support/report/drawing.h"

namespace fovea {

namespace {

constexpr double line_height = 16, inset = 8, beside = 24, between = 40;

/// The nodes with a leaf of its own for each use, so that no edge passes other operations.
std::vector<TapeNode> with_repeated_leaves(const std::vector<TapeNode>& nodes) {
  std::vector<TapeNode> all;
  std::vector<std::size_t> places(nodes.size());
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (nodes[k].is_leaf) continue;
    TapeNode node = nodes[k];
    for (std::size_t& input : node.inputs) {
      if (nodes[input].is_leaf) all.push_back(nodes[input]);
      input = nodes[input].is_leaf ? all.size() - 1 : places[input];
    }
    places[k] = all.size();
    all.push_back(std::move(node));
  }
  return all;
}

struct Placed {
  int layer = 0;  ///< 0: the last node; those above have larger numbers
  double x = 0, top = 0, width = 0, height = 0;
};

/// Boxes with their sizes and layers. A node is as far down as the nodes that use it allow, so that edges are short.
std::vector<Placed> placed_nodes(const std::vector<TapeNode>& nodes) {
  std::vector<Placed> boxes(nodes.size());
  for (std::size_t k = nodes.size(); k-- > 0;) {
    for (const std::string& line : nodes[k].lines)
      boxes[k].width = std::max(boxes[k].width, text_pixels(line) + 2 * inset);
    boxes[k].height = line_height * double(nodes[k].lines.size()) + inset;
    for (std::size_t input : nodes[k].inputs) boxes[input].layer = std::max(boxes[input].layer, boxes[k].layer + 1);
  }
  return boxes;
}

/// Places the layers from the bottom up, each node above the mean of those that use it.
void place(const std::vector<TapeNode>& nodes, std::vector<Placed>& boxes) {
  std::map<int, std::vector<std::size_t>> layers;
  for (std::size_t k = 0; k < boxes.size(); ++k) layers[boxes[k].layer].push_back(k);
  double bottom = 0;
  for (auto& [layer, members] : layers) {
    for (std::size_t k : members) {
      double sum = 0, users = 0;
      for (std::size_t user = 0; user < nodes.size(); ++user)
        for (std::size_t input : nodes[user].inputs)
          if (input == k) sum += boxes[user].x, ++users;
      boxes[k].x = users > 0 ? sum / users : 0;
    }
    std::stable_sort(members.begin(), members.end(), [&](auto a, auto b) { return boxes[a].x < boxes[b].x; });
    double wanted = 0, width = -beside, height = 0;
    for (std::size_t k : members)
      wanted += boxes[k].x / double(members.size()), width += boxes[k].width + beside,
          height = std::max(height, boxes[k].height);
    double left = wanted - width / 2;
    for (std::size_t k : members) {
      boxes[k].x = left + boxes[k].width / 2, boxes[k].top = bottom - boxes[k].height;
      left += boxes[k].width + beside;
    }
    bottom -= height + between;
  }
}

}  // namespace

std::string svg(const std::string& title, const std::vector<TapeNode>& graph) {
  const std::vector<TapeNode> nodes = with_repeated_leaves(graph);
  std::vector<Placed> boxes = placed_nodes(nodes);
  place(nodes, boxes);
  double left = 0, right = 0, top = 0;
  for (const Placed& box : boxes) {
    left = std::min(left, box.x - box.width / 2), right = std::max(right, box.x + box.width / 2);
    top = std::min(top, box.top);
  }
  for (Placed& box : boxes) box.x += inset - left, box.top += title_height + inset - top;
  Drawing drawing;
  drawing.text(inset, 15, title, "title");
  for (std::size_t k = 0; k < nodes.size(); ++k)
    for (std::size_t input : nodes[k].inputs) {
      const Placed &from = boxes[input], &to = boxes[k];
      const double start = from.top + from.height, bend = (to.top - start) / 2;
      drawing.raw(fmt::format("<path class=\"edge\" d=\"M{} {}C{} {} {} {} {} {}\"/>\n", px(from.x), px(start),
                              px(from.x), px(start + bend), px(to.x), px(to.top - bend), px(to.x), px(to.top)));
    }
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const Placed& box = boxes[k];
    drawing.raw(fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\"/>\n",
                            nodes[k].is_leaf ? "node leaf" : "node", px(box.x - box.width / 2), px(box.top),
                            px(box.width), px(box.height)));
    double line = box.top;
    for (const std::string& text : nodes[k].lines) drawing.text(box.x, line += line_height, text, "", "middle");
  }
  return drawing.element(right - left + 2 * inset, title_height + 2 * inset - top, title);
}

}  // namespace fovea
