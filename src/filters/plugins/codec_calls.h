#pragma once
// The calls of a codec worker, over a Channel, one at a time. A request's kind is the number of the call
// (base/rpc/calls.h); its head is a RequestHead and the arguments, its bulk what a filter gets. The answer's kind is
// RequestHead::serial.

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/rpc/calls.h"
#include "base/sandbox.h"
#include "filters/core/filter.h"
#include "filters/plugins/plugin_calls.h"
#include "model/messages.h"

namespace codecfs::filters {

struct RequestHead {
  uint32_t serial = 0;
  uint32_t seconds = 0;  // of processor time; 0: no limit
  uint64_t memory = 0;   // bytes; 0: no limit
};

/// A dataset that is created with an HDF5 filter: the arguments of its can_apply and set_local.
struct DatasetToPrepare {
  bool only_check = false;  // can_apply instead of set_local
  uint32_t flags = 0;       // of the filter
  std::vector<uint32_t> parameters;
  std::string type;  // by H5Tencode
  std::vector<uint64_t> shape;
  std::vector<uint64_t> chunks;
};

/// What a codec worker does beside PluginCalls.
class CodecService {
 public:
  struct Loaded {
    PluginDescription description;  // the path is the one in messages
    SandboxParts protections = 0;
  };
  /// The first call, once. `path`: of the library; `shown`: its name in messages.
  virtual Result<Loaded> load(const std::string& path, const std::string& shown) = 0;
  /// PluginCalls::filter(). The bytes are valid until the next call.
  virtual Result<Bytes> filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) = 0;
  /// The filter's parameters after can_apply or set_local.
  virtual Result<std::vector<uint32_t>> prepare_dataset(const DatasetToPrepare& dataset) = 0;
  /// PluginCalls::finalize(). The last call: the worker ends then.
  virtual Result<> finalize() = 0;

 protected:
  ~CodecService() = default;
};

using CodecTable =
    rpc::Table<rpc::Call<&CodecService::load>, rpc::Call<&CodecService::filter>, rpc::Call<&PluginCalls::parameters_of>,
               rpc::Call<&PluginCalls::codec_of>, rpc::Call<&PluginCalls::modified_parameters>,
               rpc::Call<&CodecService::prepare_dataset>, rpc::Call<&CodecService::finalize>>;

}  // namespace codecfs::filters

namespace codecfs {

template <>
inline constexpr bool rpc::is_plain<filters::RequestHead> = true;
template <>
inline constexpr auto rpc::fields<filters::DatasetToPrepare> =
    [](auto& it) { return std::tie(it.only_check, it.flags, it.parameters, it.type, it.shape, it.chunks); };
/// Without what netcdf_host.h does not need.
template <>
inline constexpr auto rpc::fields<filters::ChunkShape> =
    [](auto& it) { return std::tie(it.bytes, it.type, it.shape, it.chunks); };
template <>
inline constexpr auto rpc::fields<filters::ModifiedParameters> =
    [](auto& it) { return std::tie(it.visible, it.working); };
template <>
inline constexpr auto rpc::fields<filters::PluginDescription::Hdf5Filter> =
    [](auto& it) { return std::tie(it.id, it.name, it.encodes, it.decodes, it.has_can_apply, it.has_set_local); };
template <>
inline constexpr auto rpc::fields<filters::PluginDescription::Codec> =
    [](auto& it) { return std::tie(it.id, it.hdf5_id, it.has_modify_parameters, it.is_default); };
template <>
inline constexpr auto rpc::fields<filters::PluginDescription> =
    [](auto& it) { return std::tie(it.path, it.hdf5, it.codecs, it.problems); };
template <>
inline constexpr auto rpc::fields<filters::CodecService::Loaded> =
    [](auto& it) { return std::tie(it.description, it.protections); };

}  // namespace codecfs
