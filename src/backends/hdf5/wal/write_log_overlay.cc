#include "backends/hdf5/wal/write_log_overlay.h"

#include <algorithm>
#include <iterator>

namespace codecfs::hdf5 {

void Overlay::cut(uint64_t from, uint64_t until) {
  auto at = extents_.lower_bound(from);
  if (at != extents_.begin()) {
    const auto before = std::prev(at);
    Extent& extent = before->second;
    if (extent.end > until) {
      extents_.emplace_hint(at, until, Extent{extent.end, extent.position + (until - before->first), extent.origin});
    }
    extent.end = std::min(extent.end, from);
  }
  while (at != extents_.end() && at->first < until) {
    const auto [start, extent] = *at;
    at = extents_.erase(at);
    if (extent.end > until) {
      extents_.emplace_hint(at, until, Extent{extent.end, extent.position + (until - start), extent.origin});
    }
  }
}

void Overlay::write(uint64_t offset, uint64_t length, Origin origin, uint64_t position) {
  if (length == 0) return;
  cut(offset, offset + length);
  extents_.emplace(offset, Extent{offset + length, position, origin});
  size_ = std::max(size_, offset + length);
}

void Overlay::set_size(uint64_t size) {
  if (size < size_) cut(size, size_);
  base_end_ = std::min(base_end_, size);
  size_ = size;
}

Overlay::Piece Overlay::piece_at(uint64_t offset) const {
  const auto after = extents_.upper_bound(offset);
  if (after != extents_.begin()) {
    const auto& [start, extent] = *std::prev(after);
    if (extent.end > offset) return {extent.origin, extent.position + (offset - start), extent.end - offset};
  }
  const uint64_t until = after == extents_.end() ? size_ : after->first;
  if (offset < base_end_) return {Origin::source, offset, std::min(until, base_end_) - offset};
  return {Origin::zeros, 0, until - offset};
}

}  // namespace codecfs::hdf5
