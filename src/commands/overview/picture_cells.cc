#include "commands/overview/picture_cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace codecfs::commands::overview {

namespace {

constexpr size_t kChannels = 3;    // red, green, blue
constexpr double kFlattest = 0.2;  // height of a picture by its width
constexpr double kSteepest = 2;

size_t cells_along(const Axis& axis, size_t most) {
  return static_cast<size_t>(std::clamp<uint64_t>(axis.length, 1, std::max<size_t>(most, 1)));
}

}  // namespace

PictureCells::PictureCells(PictureKind kind, std::vector<Axis> axes, std::vector<uint64_t> indices, size_t width,
                           size_t height, bool has_names)
    : kind_(kind), axes_(std::move(axes)), indices_(std::move(indices)), has_names_(has_names) {
  if (axes_.empty()) return;
  if (kind == PictureKind::colours) channels_ = kChannels;
  width_ = cells_along(axes_.back(), width);
  height_ = axes_.size() == 1 ? 1 : cells_along(axes_[0], height);
  // Square elements stay square, unless one side would be too thin to be seen.
  if (axes_.size() == 2) {
    const double ratio = static_cast<double>(axes_[0].length) / static_cast<double>(axes_[1].length);
    aspect_ = std::clamp(ratio, kFlattest, kSteepest);
    const double wanted = aspect_ * static_cast<double>(width);
    if (wanted < static_cast<double>(height))
      height_ = std::min(height_, static_cast<size_t>(std::max(1.0, wanted)));
    else
      width_ = std::min(width_, static_cast<size_t>(std::max(1.0, static_cast<double>(height) / aspect_)));
  }
  cells_.resize(width_ * height_ * channels_);
}

uint64_t PictureCells::place(size_t axis, uint64_t element) const {
  const Axis& of = axes_[axis];
  const uint64_t chunk = element / of.chunk;
  const auto found = std::ranges::lower_bound(of.chosen, chunk);
  if (found == of.chosen.end() || *found != chunk) return UINT64_MAX;
  return static_cast<uint64_t>(found - of.chosen.begin()) * of.chunk + element % of.chunk;
}

void PictureCells::add(size_t cell, double number) {
  if (std::isnan(number)) return;
  Cell& to = cells_[cell];
  if (to.count > 0 && has_names_) return;
  to.low = to.count == 0 ? number : std::min(to.low, number);
  to.high = to.count == 0 ? number : std::max(to.high, number);
  to.sum += number;
  ++to.count;
}

void PictureCells::add_run(const Region& region, std::span<const uint64_t> at, std::span<const double> numbers) {
  if (axes_.empty() || numbers.empty()) return;
  const size_t rank = at.size();
  const auto axis_of = [&](size_t dimension) {
    return static_cast<size_t>(std::ranges::find(axes_, dimension, &Axis::dimension) - axes_.begin());
  };
  const bool has_channels = kind_ == PictureKind::colours;
  std::vector<size_t> cell(axes_.size());  // along each axis
  const auto cells = [&](size_t axis) { return axis + 1 == axes_.size() ? width_ : height_; };
  const auto set = [&](size_t axis, uint64_t element) {
    const uint64_t where = place(axis, element);
    if (where == UINT64_MAX) return false;
    cell[axis] = static_cast<size_t>(where * cells(axis) / axes_[axis].length);
    return true;
  };
  for (size_t d = 0; d + 1 < rank; ++d) {
    const uint64_t element = region.origin[d] + at[d];
    const size_t axis = axis_of(d);
    if (axis < axes_.size() ? !set(axis, element) : element != indices_[d]) return;
  }
  const auto index = [&] { return axes_.size() == 1 ? cell[0] : cell[0] * width_ + cell[1]; };
  const size_t last = axis_of(rank - 1);
  const uint64_t begin = region.origin[rank - 1];
  if (has_channels) {
    for (size_t c = 0; c < std::min(kChannels, numbers.size()); ++c) add(index() * channels_ + c, numbers[c]);
  } else if (last == axes_.size()) {
    const uint64_t wanted = indices_[rank - 1];
    if (wanted >= begin && wanted - begin < numbers.size()) add(index(), numbers[wanted - begin]);
  } else {
    for (size_t i = 0; i < numbers.size(); ++i)
      if (set(last, begin + i)) add(index(), numbers[i]);
  }
}

void PictureCells::finish(const Conventions& conventions, Sample& sample) const {
  sample.kind = axes_.empty() ? PictureKind::none : kind_;
  sample.width = width_;
  sample.height = height_;
  sample.aspect = aspect_;
  if (kind_ == PictureKind::colours) {
    for (const Cell& cell : cells_)
      sample.colours.push_back(
          static_cast<uint8_t>(cell.count == 0 ? 0 : std::lround(cell.sum / static_cast<double>(cell.count))));
    return;
  }
  for (const Cell& cell : cells_) {
    if (cell.count == 0) {
      for (auto* const list : {&sample.cells, &sample.low, &sample.high})
        list->push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double low = conventions.unpacked(cell.low);
    const double high = conventions.unpacked(cell.high);
    sample.cells.push_back(conventions.unpacked(cell.sum / static_cast<double>(cell.count)));
    sample.low.push_back(std::min(low, high));
    sample.high.push_back(std::max(low, high));
  }
}

}  // namespace codecfs::commands::overview
