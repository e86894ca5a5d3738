#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/drawing.h"
#include "experiments/support/report/svg.h"
#include "tensor/error.h"

namespace fovea {
namespace {

constexpr std::size_t most_columns = 4, longest_token = 14;
constexpr double gap = 16, name_height = 18, scale_width = 62, largest_label = 11;

struct Layout {
  double cell, label_size, left, labels_height, panel_width, panel_height;
  std::size_t columns;

  double x(std::size_t head) const { return left + double(head % columns) * (panel_width + gap); }
};

std::string label_of(const std::string& token) { return shortened(printable(token), longest_token); }

/// The layout, as large as `most_columns` heads fit beside each other on a page.
Layout layout_of(const HeadMaps& maps) {
  constexpr double smallest_cell = 3, largest_cell = 17;
  Layout layout;
  layout.columns = std::clamp<std::size_t>(maps.heads.size(), 1, most_columns);
  double room = page_width - longest_label(maps.queries, longest_token, largest_label) - 6 - scale_width;
  double cell = (room / most_columns - gap) / double(std::max<std::size_t>(maps.keys.size(), 1));
  layout.cell = std::clamp(std::floor(cell), smallest_cell, largest_cell);
  layout.label_size = std::min(largest_label, layout.cell - 1);
  layout.left = longest_label(maps.queries, longest_token, layout.label_size) + 6;
  layout.labels_height = longest_label(maps.keys, longest_token, layout.label_size) + 8;
  layout.panel_width = layout.cell * double(maps.keys.size());
  layout.panel_height = layout.cell * double(maps.queries.size());
  return layout;
}

/// Draws the cells of a head as one path for each of a few strengths, which takes about 12 bytes for a visible cell. A
/// cell is one unit wide.
void draw_cells(Drawing& drawing, const HeadMaps& maps, const HeadMaps::Head& head, double x, double y, double cell,
                double full) {
  constexpr int strengths = 24;
  std::array<std::string, strengths + 1> hot, cold;
  std::string missing;
  std::size_t keys = maps.keys.size();
  for (std::size_t k = 0; k < head.values.size(); ++k) {
    double value = head.values[k];
    std::string square = fmt::format("M{} {}h1v1h-1z", k % keys, k / keys);
    if (!std::isfinite(value)) {
      missing += square;
      continue;
    }
    auto strength = std::size_t(std::lround(std::min(std::abs(value) / full, 1.0) * strengths));
    if (strength > 0) (value < 0 ? cold : hot)[strength] += square;
  }
  drawing.raw(fmt::format("<g class=\"cells\" transform=\"translate({} {}) scale({})\">\n", px(x), px(y), px(cell)));
  for (std::size_t k = 1; k <= strengths; ++k) {
    double opacity = double(k) / strengths;
    if (!hot[k].empty()) drawing.raw(fmt::format("<path fill-opacity=\"{:.2g}\" d=\"{}\"/>\n", opacity, hot[k]));
    if (!cold[k].empty())
      drawing.raw(fmt::format("<path class=\"cold\" fill-opacity=\"{:.2g}\" d=\"{}\"/>\n", opacity, cold[k]));
  }
  if (!missing.empty()) drawing.raw(fmt::format("<path class=\"missing\" d=\"{}\"/>\n", missing));
  drawing.raw("</g>\n");
}

/// Draws centres and widths. Key j is the interval [j, j + 1] of the drawing, with the centre j + 0.5.
void draw_centers(Drawing& drawing, const HeadMaps::Head& head, double x, double y, double cell, double keys) {
  auto pixel = [&](double key) { return x + std::clamp(key + 0.5, 0.0, keys) * cell; };
  for (std::size_t i = 0; i < head.center.size(); ++i) {
    double row = y + (double(i) + 0.5) * cell, half = i < head.width.size() ? head.width[i] / 2 : 0;
    if (!std::isfinite(head.center[i]) || !std::isfinite(half)) continue;
    if (half > 0) drawing.line(pixel(head.center[i] - half), row, pixel(head.center[i] + half), row, "spread");
    drawing.raw(fmt::format("<circle class=\"center\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", px(pixel(head.center[i])),
                            px(row), px(std::clamp(cell / 6, 1.2, 2.4))));
  }
}

void draw_labels(Drawing& drawing, const HeadMaps& maps, const Layout& at, std::size_t head, double top) {
  constexpr double smallest_readable = 6;
  drawing.text(at.x(head), top - at.labels_height - 6, maps.heads[head].name, "axis");
  if (at.label_size < smallest_readable) return;
  drawing.raw(fmt::format("<g style=\"font-size:{}px\">\n", px(at.label_size)));
  for (std::size_t j = 0; j < maps.keys.size(); ++j) {
    double x = at.x(head) + (double(j) + 0.5) * at.cell + at.label_size / 3;
    drawing.text(x, top - 4, label_of(maps.keys[j]), "token", "start", -90);
  }
  for (std::size_t i = 0; head % at.columns == 0 && i < maps.queries.size(); ++i) {
    double y = top + (double(i) + 0.5) * at.cell + at.label_size / 3;
    drawing.text(at.left - 5, y, label_of(maps.queries[i]), "token", "end");
  }
  drawing.raw("</g>\n");
}

void check(const HeadMaps& maps) {
  std::size_t rows = maps.queries.size(), cells = rows * maps.keys.size();
  for (const HeadMaps::Head& head : maps.heads) {
    require(head.values.size() == cells, "maps '{}': {} has {} values for {} queries and {} keys; expected {}",
            maps.title, head.name, head.values.size(), rows, maps.keys.size(), cells);
    require((head.center.empty() || head.center.size() == rows) && (head.width.empty() || head.width.size() == rows),
            "maps '{}': {} has {} centres and {} widths for {} queries", maps.title, head.name, head.center.size(),
            head.width.size(), rows);
  }
}

}  // namespace

std::string svg(const HeadMaps& maps) {
  check(maps);
  Layout at = layout_of(maps);
  double full = 0, low = 0;
  for (const HeadMaps::Head& head : maps.heads) {
    for (double value : head.values) {
      if (!std::isfinite(value)) continue;
      full = std::max(full, std::abs(value));
      low = std::min(low, value);
    }
  }
  if (full == 0) full = 1;
  Drawing drawing;
  double y = maps.title.empty() ? 0 : title_height;
  if (y > 0) drawing.text(0, 15, maps.title, "title");
  double first_top = y + name_height + at.labels_height;
  for (std::size_t h = 0; h < maps.heads.size(); ++h) {
    double x = at.x(h), top = y + name_height + at.labels_height;
    draw_labels(drawing, maps, at, h, top);
    drawing.raw(fmt::format("<rect class=\"panel\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", px(x), px(top),
                            px(at.panel_width), px(at.panel_height)));
    draw_cells(drawing, maps, maps.heads[h], x, top, at.cell, full);
    draw_centers(drawing, maps.heads[h], x, top, at.cell, double(maps.keys.size()));
    bool ends_row = (h + 1) % at.columns == 0 || h + 1 == maps.heads.size();
    if (ends_row) y = top + at.panel_height + gap;
  }
  double right = at.left + double(at.columns) * (at.panel_width + gap);
  draw_colour_scale(drawing, right, first_top, at.panel_height, low < 0 ? -full : 0, full);
  constexpr double shortest_scale = 60, legend_height = 18;
  double width = std::max(right + scale_width, text_pixels(maps.title, 14));
  double height = std::max(y, first_top + shortest_scale + gap);
  if (std::any_of(maps.heads.begin(), maps.heads.end(), [](const auto& head) { return !head.center.empty(); })) {
    drawing.text(at.left, height + 6, "orange: the window's center and width", "tick");
    height += legend_height;
  }
  return drawing.element(width, height, maps.title);
}

}  // namespace fovea
