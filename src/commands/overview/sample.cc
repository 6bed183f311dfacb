#include "commands/overview/sample.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/human.h"
#include "base/interruption.h"
#include "commands/elements.h"
#include "commands/grid_regions.h"
#include "commands/overview/picture_cells.h"

namespace codecfs::commands::overview {
namespace {

constexpr const char* kTimeIsOver = "the time for reading was over before it was read";
constexpr uint64_t kThin = 16;     // elements: chunks that are no longer are spaced
constexpr uint64_t kFurther = 4;   // chunks of the rest of the array, for the statistics
constexpr uint64_t kFew = 4;       // elements: dimensions that have no more (bounds, vectors) are no axes
constexpr uint64_t kLong = 16;     // beside such a dimension
constexpr uint64_t kMinImage = 8;  // pixels of an image with colours, in both directions

/// Which elements a picture has.
struct Window {
  PictureKind kind = PictureKind::none;
  std::vector<Axis> axes;         // the rows and columns of a picture; one of a line; none of a scalar
  std::vector<uint64_t> indices;  // of the other dimensions; those of `axes` are not used
};

/// The dimensions that the picture has as axes.
std::pair<PictureKind, std::vector<size_t>> axes_of(const Variable& facts) {
  const std::vector<uint64_t>& shape = facts.grid.shape();
  const size_t rank = shape.size();
  std::vector<size_t> longer;  // dimensions
  const auto find_longer = [&](uint64_t than) {
    for (size_t d = 0; d < rank; ++d)
      if (shape[d] > than) longer.push_back(d);
  };
  find_longer(std::ranges::any_of(shape, [](uint64_t extent) { return extent >= kLong; }) ? kFew : 1);
  if (longer.empty()) return {PictureKind::none, {}};
  const bool is_bytes = facts.type.kind == TypeKind::unsigned_int && facts.type.size == 1;
  const bool has_colours = rank >= 3 && (shape[rank - 1] == 3 || shape[rank - 1] == 4) &&
                           facts.grid.chunks()[rank - 1] >= shape[rank - 1] && shape[rank - 2] >= kMinImage &&
                           shape[rank - 3] >= kMinImage;
  if (is_bytes && has_colours) return {PictureKind::colours, {rank - 3, rank - 2}};
  if (longer.size() == 1) return {PictureKind::line, longer};
  return {PictureKind::heat, {longer[longer.size() - 2], longer.back()}};
}

/// The chunk nearest to the middle that is stored; the middle if none is.
Result<std::vector<uint64_t>> centre_of(Source& source, ObjectId object, const Variable& facts) {
  const ChunkGrid& grid = facts.grid;
  std::vector<uint64_t> middle(grid.rank());
  for (size_t d = 0; d < middle.size(); ++d) middle[d] = grid.shape()[d] / 2 / grid.chunks()[d];
  CODECFS_ASSIGN(std::vector<uint64_t> stored, source.stored_chunks(object, grid.number_of(middle), 1));
  if (stored.empty()) {
    CODECFS_ASSIGN(stored, source.stored_chunks(object, 0, 1));
  }
  if (!stored.empty() && stored.front() < grid.count()) grid.coordinates_of(stored.front(), middle);
  return middle;
}

Window choose_window(const Variable& facts, std::span<const uint64_t> centre, uint64_t most) {
  const ChunkGrid& grid = facts.grid;
  Window window;
  for (size_t d = 0; d < grid.rank(); ++d) {
    const uint64_t begin = centre[d] * grid.chunks()[d];
    const uint64_t end = std::min(begin + grid.chunks()[d], grid.shape()[d]);
    window.indices.push_back(std::clamp(grid.shape()[d] / 2, begin, end - 1));
  }
  std::vector<size_t> dimensions;
  std::tie(window.kind, dimensions) = axes_of(facts);
  uint64_t left = most;
  const auto choose = [&](size_t dimension, uint64_t chunks) {
    const uint64_t chunk = grid.chunks()[dimension];
    const bool is_spaced = window.kind == PictureKind::line || chunk <= kThin;
    return choose_chunks(dimension, grid.shape()[dimension], chunk, chunks, centre[dimension], is_spaced);
  };
  if (dimensions.size() == 1) window.axes.push_back(choose(dimensions[0], left));
  if (dimensions.size() != 2) return window;
  const uint64_t rows = grid.cells()[dimensions[0]];
  const uint64_t columns = grid.cells()[dimensions[1]];
  const auto side = std::max<uint64_t>(1, static_cast<uint64_t>(std::sqrt(static_cast<double>(most))));
  const uint64_t taken_rows = std::min(rows, std::max(side, most / std::max<uint64_t>(columns, 1)));
  window.axes.push_back(choose(dimensions[0], taken_rows));
  left = std::max<uint64_t>(1, most / taken_rows);
  window.axes.push_back(choose(dimensions[1], left));
  return window;
}

/// The numbers of the chunks that a picture needs, ascending.
std::vector<uint64_t> chunks_of(const ChunkGrid& grid, const Window& window) {
  std::vector<uint64_t> cell(grid.rank());
  for (size_t d = 0; d < cell.size(); ++d) cell[d] = window.indices[d] / grid.chunks()[d];
  std::set<uint64_t> numbers;
  const auto add_along = [&](const Axis* axis, const auto& next) {
    if (axis == nullptr) return next();
    for (const uint64_t chunk : axis->chosen) {
      cell[axis->dimension] = chunk;
      next();
    }
  };
  const Axis* const first = window.axes.empty() ? nullptr : window.axes.data();
  const Axis* const second = window.axes.size() < 2 ? nullptr : &window.axes[1];
  add_along(first, [&] { add_along(second, [&] { numbers.insert(grid.number_of(cell)); }); });
  return {numbers.begin(), numbers.end()};
}

/// "[1, 0:18, 100:200]"; spaced chunks: "[0:1000:100]" with the distance of their first elements.
std::string text_of_window(const ChunkGrid& grid, const Window& window) {
  std::string text;
  for (size_t d = 0; d < grid.rank(); ++d) {
    const auto axis = std::ranges::find(window.axes, d, &Axis::dimension);
    text += text.empty() ? "[" : ", ";
    if (axis == window.axes.end()) {
      const bool is_channel = window.kind == PictureKind::colours && d + 1 == grid.rank();
      text += is_channel ? fmt::format("0:{}", grid.shape()[d]) : std::to_string(window.indices[d]);
      continue;
    }
    const uint64_t begin = axis->chosen.front() * axis->chunk;
    text += fmt::format("{}:{}", begin, std::min((axis->chosen.back() + 1) * axis->chunk, axis->extent));
    if (axis->chosen.back() - axis->chosen.front() + 1 != axis->chosen.size()) text += ", in parts";
  }
  return text.empty() ? "" : text + "]";
}

/// Adds the elements of chunks to the statistics and to the cells of the picture.
class Collector {
 public:
  Collector(const Variable& facts, const Conventions& conventions, Window& window, const SampleRules& rules,
            Sample& sample)
      : facts_(facts),
        conventions_(conventions),
        cells_(window.kind, window.axes, window.indices,
               window.kind == PictureKind::line ? rules.line_width : rules.width, rules.height,
               !conventions.flags.empty()),
        sample_(sample) {}

  /// `chunk`: none: it is not stored.
  Result<> add(uint64_t number, std::optional<Buffer> chunk) {
    ++sample_.chunks;
    if (!chunk) {
      CODECFS_ASSIGN(chunk, make_fill_chunk(facts_));
    }
    const uint64_t count = facts_.grid.elements_per_chunk();
    CODECFS_ASSIGN(const Elements elements, elements_of_chunk(facts_, *std::move(chunk), count));
    const Region region = region_of_chunk(facts_.grid, number);
    const size_t rank = region.extent.size();
    const uint64_t run = rank == 0 ? 1 : region.extent[rank - 1];
    std::vector<uint64_t> at(rank);  // in the chunk, of the first element of a run
    numbers_.resize(run);
    for (;;) {
      uint64_t index = 0;
      for (size_t d = 0; d < rank; ++d) index = index * facts_.grid.chunks()[d] + at[d];
      to_numbers(facts_, elements.bytes.bytes().subspan(index * facts_.type.size, run * facts_.type.size), numbers_);
      add_run(region, at);
      size_t d = rank < 2 ? 0 : rank - 1;
      for (; d > 0; --d) {
        if (++at[d - 1] < region.extent[d - 1]) break;
        at[d - 1] = 0;
      }
      if (d == 0) return {};
    }
  }

  void finish() {
    Statistics& found = sample_.statistics;
    if (found.valid > 0) {
      found.mean = conventions_.unpacked(sum_ / static_cast<double>(found.valid));
      found.least = conventions_.unpacked(found.least);
      found.greatest = conventions_.unpacked(found.greatest);
      if (found.least > found.greatest) std::swap(found.least, found.greatest);
    }
    cells_.finish(conventions_, sample_);
  }

 private:
  void add_run(const Region& region, std::span<const uint64_t> at) {
    Statistics& found = sample_.statistics;
    found.elements += numbers_.size();
    for (double& number : numbers_) {
      if (number < 0) number += conventions_.unsigned_from;
      if (conventions_.is_fill(number)) ++found.fill;
      if (conventions_.is_missing(number)) {
        number = std::numeric_limits<double>::quiet_NaN();
        continue;
      }
      found.least = found.valid == 0 ? number : std::min(found.least, number);
      found.greatest = found.valid == 0 ? number : std::max(found.greatest, number);
      sum_ += number;
      ++found.valid;
      if (number == conventions_.mask) number = std::numeric_limits<double>::quiet_NaN();
    }
    cells_.add_run(region, at, numbers_);
  }

  const Variable& facts_;
  const Conventions& conventions_;
  PictureCells cells_;
  Sample& sample_;
  std::vector<double> numbers_;  // of a run
  double sum_ = 0;
};

}  // namespace

std::optional<size_t> row_dimension(const Variable& facts) {
  const auto [kind, axes] = axes_of(facts);
  return kind == PictureKind::heat ? std::optional(axes[0]) : std::nullopt;
}

void turn_over(Sample& sample) {
  sample.is_upward = !sample.is_upward;
  for (auto* const cells : {&sample.cells, &sample.low, &sample.high})
    for (size_t y = 0; y < sample.height / 2; ++y)
      std::swap_ranges(cells->begin() + static_cast<std::ptrdiff_t>(y * sample.width),
                       cells->begin() + static_cast<std::ptrdiff_t>((y + 1) * sample.width),
                       cells->end() - static_cast<std::ptrdiff_t>((y + 1) * sample.width));
}

Axis choose_chunks(size_t dimension, uint64_t extent, uint64_t chunk, uint64_t most, uint64_t centre, bool is_spaced) {
  Axis axis{.dimension = dimension, .extent = extent, .chunk = chunk, .chosen = {}};
  const uint64_t all = (extent + chunk - 1) / chunk;
  const uint64_t count = std::clamp<uint64_t>(most, 1, std::max<uint64_t>(all, 1));
  if (is_spaced && count > 1) {
    // Both ends are among them.
    for (uint64_t i = 0; i < count; ++i)
      axis.chosen.push_back(static_cast<uint64_t>(static_cast<double>(all - 1) * static_cast<double>(i) /
                                                  static_cast<double>(count - 1)));
    axis.chosen.erase(std::ranges::unique(axis.chosen).begin(), axis.chosen.end());
  } else {
    const uint64_t begin = std::min(centre - std::min(centre, count / 2), all - count);
    for (uint64_t i = begin; i < begin + count; ++i) axis.chosen.push_back(i);
  }
  for (const uint64_t number : axis.chosen) axis.length += std::min(chunk, extent - number * chunk);
  return axis;
}

Sample take_sample(Source& source, ObjectId object, const Variable& facts, const Conventions& conventions,
                   const SampleRules& rules) {
  Sample sample;
  sample.all_chunks = facts.grid.count();
  if (facts.grid.count() == 0) sample.none = "the array has no elements";
  if (facts.unreadable) sample.none = facts.unreadable->reason;
  const uint64_t chunk_bytes = facts.chunk_bytes.value_or(0);
  if (chunk_bytes > rules.chunk_bytes)
    sample.none = fmt::format("a chunk takes {}: too large to be read for an overview", human_bytes(chunk_bytes));
  if (sample.none) return sample;
  const Result<std::vector<uint64_t>> centre = centre_of(source, object, facts);
  if (!centre) {
    sample.none = centre.error().code == EINTR ? kTimeIsOver : centre.error().reason;
    return sample;
  }
  const uint64_t most =
      std::clamp<uint64_t>(rules.bytes / std::max<uint64_t>(chunk_bytes, 1), 1, std::max<size_t>(rules.chunks, 1));
  Window window = choose_window(facts, *centre, most);
  std::vector<uint64_t> numbers = chunks_of(facts.grid, window);
  if (facts.grid.count() <= most) {
    numbers.resize(facts.grid.count());
    std::iota(numbers.begin(), numbers.end(), 0);
  } else if (numbers.size() + kFurther <= most) {
    for (uint64_t i = 0; i < kFurther; ++i) numbers.push_back((facts.grid.count() - 1) / (kFurther - 1) * i);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  Collector collector(facts, conventions, window, rules, sample);
  (void)source.expect(object, numbers);  // an error shows when they are read
  for (const uint64_t number : numbers) {
    Result<Buffer> chunk = source.read_chunk(object, number);
    if (Interruption::is_requested()) {
      sample.none = kTimeIsOver;
      return sample;
    }
    Result<> added;
    if (chunk)
      added = collector.add(number, *std::move(chunk));
    else if (chunk.error().code == ENOENT)
      added = collector.add(number, std::nullopt);
    else
      added = std::unexpected(std::move(chunk.error()));
    if (!added) sample.errors.push_back(std::move(added.error()));
  }
  collector.finish();
  sample.shown = text_of_window(facts.grid, window);
  sample.is_whole = std::ranges::all_of(window.axes, &Axis::is_whole);
  if (sample.statistics.elements == 0) sample.kind = PictureKind::none;
  return sample;
}

}  // namespace codecfs::commands::overview
