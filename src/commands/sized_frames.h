#pragma once
// A store of Zarr v3 for conversion into v2, whose readers have older decoders: numcodecs before 0.16 decodes no
// Zstandard frame without its content size, which streaming encoders write.

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "backends/api/forwarding_source.h"
#include "base/mutex.h"
#include "filters/core/common_form.h"

namespace codecfs::commands {

/// Chunks of such frames are not there as they are stored, so that they are encoded again.
class SizedFrames final : public WrappedSource {
 public:
  using WrappedSource::WrappedSource;

  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override {
    auto stored = WrappedSource::read_stored(variable, number);
    if (!stored || !*stored) return stored;
    const VariablePtr zstd = with_zstd(variable);
    const bool has_size = !zstd || filters::has_common_form(std::span(&zstd->filters.back(), 1), {}, (*stored)->bytes(),
                                                            (*stored)->size());
    return has_size ? std::move(stored) : std::optional<Buffer>();
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override {
    if (with_zstd(variable)) return std::optional<uint64_t>();  // known when the chunk was read
    return WrappedSource::stored_bytes(variable, number);
  }
  Result<std::optional<UniqueFd>> open_stored(ObjectId variable, uint64_t number) override {
    if (with_zstd(variable)) return std::optional<UniqueFd>();
    return WrappedSource::open_stored(variable, number);
  }
  Result<std::optional<uint64_t>> stored_offset(ObjectId variable, uint64_t number) override {
    if (with_zstd(variable)) return std::optional<uint64_t>();
    return WrappedSource::stored_offset(variable, number);
  }

 private:
  /// Null if the last codec is another one, or there is none.
  VariablePtr with_zstd(ObjectId variable) {
    constexpr uint32_t kZstd = 32015;
    const LockGuard lock(mutex_);
    const auto [known, is_new] = variables_.try_emplace(variable);
    if (is_new)
      if (const auto facts = source().facts(variable); facts && !(*facts)->filters.empty())
        if ((*facts)->filters.back().id == kZstd) known->second = *facts;
    return known->second;
  }

  Mutex mutex_{LockRank::sized_frames};
  std::map<ObjectId, VariablePtr> variables_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::commands
