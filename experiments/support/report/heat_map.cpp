#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/drawing.h"
#include "experiments/support/report/svg.h"
#include "tensor/error.h"

namespace fovea {
namespace {

constexpr std::size_t longest_name = 16;
constexpr double colour_scale_width = 66;

struct HeatLayout {
  double cell, left, top, right, bottom, label_size;
  bool slanted, has_labels;
};

/// The layout: as wide as a chart if cells can have 4 pixels, with labels if they can have 8.
HeatLayout heat_layout(const HeatMap& map) {
  constexpr double smallest_cell = 4, largest_cell = 24, smallest_side = 240;
  constexpr double smallest_labelled_cell = 8, smallest_slanted_cell = 14;
  HeatLayout layout;
  auto most = double(std::max({map.keys.size(), map.queries.size(), std::size_t(1)}));
  double side = chart_width - axis_label_height - colour_scale_width - 10;
  double labelled_side = std::max(smallest_side, side - longest_label(map.queries, longest_name, font_size));
  layout.has_labels = labelled_side / most >= smallest_labelled_cell;
  layout.cell = std::floor((layout.has_labels ? labelled_side : side) / most);
  layout.cell = std::clamp(layout.cell, smallest_cell, largest_cell);
  layout.slanted = layout.cell >= smallest_slanted_cell;
  layout.label_size = std::min(font_size, layout.cell - 1);
  double key_length = layout.has_labels ? longest_label(map.keys, longest_name, layout.label_size) : 0;
  double query_length = layout.has_labels ? longest_label(map.queries, longest_name, layout.label_size) : 0;
  layout.left = axis_label_height + query_length + 6;
  layout.top = (map.title.empty() ? 0 : title_height) + axis_label_height +
               (layout.slanted ? key_length * std::sqrt(0.5) + 10 : key_length + 6);
  layout.right = layout.left + layout.cell * double(map.keys.size());
  layout.bottom = layout.top + layout.cell * double(map.queries.size());
  return layout;
}

void draw_heat_labels(Drawing& drawing, const HeatMap& map, const HeatLayout& at) {
  double head = map.title.empty() ? 0 : title_height;
  if (!map.title.empty()) drawing.text(0, 15, map.title, "title");
  drawing.text((at.left + at.right) / 2, head + 12, map.key_label, "axis", "middle");
  drawing.text(11, (at.top + at.bottom) / 2, map.query_label, "axis", "middle", -90);
  if (!at.has_labels) return;
  drawing.raw(fmt::format("<g class=\"token\" style=\"font-size:{}px\">\n", px(at.label_size)));
  for (std::size_t j = 0; j < map.keys.size(); ++j) {
    double x = at.left + (double(j) + 0.5) * at.cell + (at.slanted ? 1 : at.label_size / 3);
    drawing.text(x, at.top - 6, shortened(printable(map.keys[j]), longest_name), "token", "start",
                 at.slanted ? -45 : -90);
  }
  for (std::size_t i = 0; i < map.queries.size(); ++i) {
    double y = at.top + (double(i) + 0.5) * at.cell + at.label_size / 3;
    drawing.text(at.left - 6, y, shortened(printable(map.queries[i]), longest_name), "token", "end");
  }
  drawing.raw("</g>\n");
}

/// The right end of the slanted labels of the keys, in pixels.
double end_of_labels(const HeatMap& map, const HeatLayout& at) {
  double end = 0;
  for (std::size_t j = 0; at.slanted && j < map.keys.size(); ++j) {
    double length = text_pixels(shortened(printable(map.keys[j]), longest_name), at.label_size);
    end = std::max(end, at.left + double(j + 1) * at.cell + length * std::sqrt(0.5));
  }
  return end;
}

/// The value of the strongest colour.
double full_colour(const HeatMap& map) {
  double largest = 0;
  for (double value : map.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  largest = std::max({map.high.value_or(largest), -map.low.value_or(0)});
  return largest > 0 ? largest : 1;
}

void draw_cells(Drawing& drawing, const HeatMap& map, const HeatLayout& at, double full) {
  double gap = at.cell >= 10 ? 1 : 0;
  drawing.raw("<g class=\"cells\">\n");
  for (std::size_t i = 0; i < map.queries.size(); ++i) {
    for (std::size_t j = 0; j < map.keys.size(); ++j) {
      double value = map.values[i * map.keys.size() + j];
      double strength = std::isfinite(value) ? std::clamp(std::abs(value) / full, 0.0, 1.0) : 0;
      const char* style = !std::isfinite(value) ? " class=\"missing\"" : value < 0 ? " class=\"cold\"" : "";
      drawing.raw(
          fmt::format("<rect{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.3g}\">{}</rect>\n", style,
                      px(at.left + double(j) * at.cell), px(at.top + double(i) * at.cell), px(at.cell - gap),
                      px(at.cell - gap), std::isfinite(value) ? strength : 1.0,
                      tooltip(fmt::format("{} {} '{}', {} {} '{}': {}", map.query_label, i, map.queries[i],
                                          map.key_label, j, map.keys[j], short_value(value)))));
    }
  }
  drawing.raw("</g>\n");
  for (auto [i, j] : map.marked) {
    drawing.raw(fmt::format("<rect class=\"marked\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                            px(at.left + j * at.cell - 0.5), px(at.top + i * at.cell - 0.5), px(at.cell), px(at.cell)));
  }
}

}  // namespace

std::string svg(const HeatMap& map) {
  require(map.values.size() == map.queries.size() * map.keys.size(),
          "heat map '{}': {} values for {} queries and {} keys; expected {}", map.title, map.values.size(),
          map.queries.size(), map.keys.size(), map.queries.size() * map.keys.size());
  HeatLayout layout = heat_layout(map);
  double full = full_colour(map);
  bool has_negative =
      std::any_of(map.values.begin(), map.values.end(), [](double v) { return v < 0 && std::isfinite(v); });
  double low = map.low.value_or(has_negative ? -full : 0), high = map.high.value_or(full);
  Drawing drawing;
  draw_heat_labels(drawing, map, layout);
  drawing.raw(fmt::format("<rect class=\"panel\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", px(layout.left - 1),
                          px(layout.top - 1), px(layout.right - layout.left + 1), px(layout.bottom - layout.top + 1)));
  draw_cells(drawing, map, layout, full);
  draw_colour_scale(drawing, layout.right + 22, layout.top, layout.bottom - layout.top, low, high);
  double width =
      std::max({layout.right + colour_scale_width, end_of_labels(map, layout), text_pixels(map.title, 14)}) + 4;
  return drawing.element(width, std::max(layout.bottom, layout.top + 60) + 8, map.title);
}

}  // namespace fovea
