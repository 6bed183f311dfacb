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
  /// Calls NCZ_codec_initialize of all codecs.
  explicit DirectCalls(PluginLibrary library);

  Result<FilteredBytes> run_filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most);

  Result<Buffer> filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) override;
  Result<std::vector<uint32_t>> parameters_of(size_t codec, const std::string& json) override;
  Result<std::string> codec_of(size_t codec, std::span<const uint32_t> parameters) override;
  Result<std::vector<uint32_t>> working_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                   const ChunkShape& chunk) override;
  void finalize() override;

  [[nodiscard]] const PluginLibrary& library() const { return library_; }

 private:
  const PluginLibrary library_;
};

}  // namespace codecfs::filters
