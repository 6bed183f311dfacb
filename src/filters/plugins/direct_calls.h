#pragma once
// Calls of a plugin that this process has loaded.

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "filters/plugins/plugin_calls.h"
#include "filters/plugins/plugin_library.h"

namespace codecfs::filters {

/// Seconds that a call in a process that has only this limit may take, beside those for the bytes of a chunk.
inline constexpr unsigned kCallSeconds = 60;
/// The limit for a call with so many bytes; 0 if `seconds` is.
inline unsigned call_seconds(unsigned seconds, size_t bytes) {
  return seconds == 0 ? 0 : seconds + static_cast<unsigned>(bytes >> 20) * 8;
}

/// What a filter function returned, in its own memory.
struct FilteredBytes {
  struct Release {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Release> memory;
  size_t size = 0;

  [[nodiscard]] Bytes bytes() const { return {static_cast<const std::byte*>(memory.get()), size}; }
};

class DirectCalls final : public PluginCalls {
 public:
  /// Calls NCZ_codec_initialize of all codecs. `seconds`: a call that takes longer ends this worker process (see
  /// call_seconds()); 0: no limit.
  explicit DirectCalls(PluginLibrary library, unsigned seconds = 0);

  Result<FilteredBytes> run_filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most);

  Result<Buffer> filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) override;
  Result<std::vector<uint32_t>> parameters_of(size_t codec, const std::string& json) override;
  Result<std::string> codec_of(size_t codec, std::span<const uint32_t> parameters) override;
  Result<ModifiedParameters> modified_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                 const ChunkShape& chunk) override;
  void finalize() override;

  [[nodiscard]] const PluginLibrary& library() const { return library_; }

 private:
  /// Holds the locks that permit a call of the library, and limits its time.
  class Turn;
  /// EINVAL if there is none.
  [[nodiscard]] Result<const NCZ_codec_t*> codec_at(size_t index) const;

  const PluginLibrary library_;
  const unsigned seconds_;
};

}  // namespace codecfs::filters
