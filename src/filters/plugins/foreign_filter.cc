// The contract of an HDF5 filter function: it gets *buf with nbytes valid bytes in *buf_size, may replace *buf by
// another allocation, and returns the number of valid bytes, or 0 for failure. Some filters confuse *buf_size with
// nbytes, so both are equal here. Some leave *buf null after a failure, and some do not update *buf_size for a new
// *buf.
//
// The memory is libhdf5's (H5allocate_memory), which is plain malloc unless libhdf5 was built with memory checking.

#include "filters/plugins/foreign_filter.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "filters/plugins/netcdf_host.h"
#include "filters/plugins/plugins.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

#ifdef H5_MEMORY_ALLOC_SANITY_CHECK
void* allocate(size_t size) { return H5allocate_memory(size, false); }
void release(void* memory) { H5free_memory(memory); }
size_t room_in(void*, size_t told) { return told; }
#else
void* allocate(size_t size) { return std::malloc(size); }
void release(void* memory) { std::free(memory); }
size_t room_in(void* memory, size_t) { return malloc_usable_size(memory); }
#endif

struct Release {
  void operator()(void* memory) const { release(memory); }
};
using Memory = std::unique_ptr<void, Release>;
struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

SharedMutex& foreign_calls() {
  static auto& mutex = *new SharedMutex;  // never destroyed: other threads may decode during static destruction
  return mutex;
}

thread_local bool are_held = false;  // by this thread, in a PluginsHeld

/// Holds the locks that permit a call of a library.
class Turn {
 public:
  explicit Turn(Mutex* turn) {
    if (turn == nullptr || are_held) return;
    others_ = std::shared_lock(foreign_calls());
    own_ = std::unique_lock(*turn);
  }

 private:
  std::shared_lock<SharedMutex> others_;
  std::unique_lock<Mutex> own_;
};

/// The HDF5 filter of a plugin, shared by the coders of its stages.
struct ForeignFilter {
  H5Z_class2_t api;
  std::string path;
  std::shared_ptr<Mutex> turn;

  [[nodiscard]] Result<Buffer> run(unsigned flags, const std::vector<unsigned>& parameters, Bytes in,
                                   uint64_t most) const {
    if (in.empty()) return fail(EIO, "there are no bytes to filter");
    void* memory = allocate(in.size());
    if (memory == nullptr) return fail(ENOMEM, "no memory for {} bytes", in.size());
    std::memcpy(memory, in.data(), in.size());
    size_t capacity = in.size();
    size_t size = 0;
    {
      const Turn turn_held(turn.get());
      // Some filters read the first parameter even if there are none, so never pass a null pointer.
      static constexpr unsigned kNone = 0;
      size = api.filter(flags, parameters.size(), parameters.empty() ? &kNone : parameters.data(), in.size(), &capacity,
                        &memory);
    }
    const Memory owned(memory);
    if (size == 0) return fail(EIO, "{} reports a failure", path);
    if (memory == nullptr || size > room_in(memory, capacity))
      return fail(EIO, "{} says that it made {} bytes, but gives no room for them", path, size);
    if (size > most) return fail(EIO, "{} made {} bytes, more than {}", path, size, most);
    return Buffer::copy_of({static_cast<const std::byte*>(memory), size});
  }
};

Result<Coder> make_foreign_coder(const std::shared_ptr<const ForeignFilter>& filter, const StageContext& context) {
  const std::vector<unsigned> parameters(context.stage.parameters.begin(), context.stage.parameters.end());
  const unsigned optional = context.stage.optional ? H5Z_FLAG_OPTIONAL : 0;
  Coder coder;
  coder.decode = [=](const Buffer& in, const SizeBound& out) -> Result<Buffer> {
    if (filter->api.decoder_present == 0) return fail(EIO, "{} can only encode", filter->path);
    return filter->run(optional | H5Z_FLAG_REVERSE, parameters, in.bytes(), out.max);
  };
  if (filter->api.encoder_present != 0)
    coder.encode = [=](Bytes in) { return filter->run(optional, parameters, in, SIZE_MAX); };
  // The API does not declare the encoded size, but no filter in use exceeds this.
  coder.encoded = [](const SizeBound& decoded) -> SizeBound { return {2 * decoded.max + 65536, std::nullopt}; };
  return coder;
}

/// netCDF's own codecs read "level" without checking that it is present.
Json with_defaults(Json codec) {
  const std::string id = codec.value("id", "");
  if ((id == "zlib" || id == "bz2" || id == "zstd") && !codec.contains("level")) codec["level"] = id == "zstd" ? 0 : 1;
  return codec;
}

/// The codec of a plugin.
struct ForeignCodec {
  NCZ_codec_t api;
  std::string path;
  std::shared_ptr<Mutex> turn;

  [[nodiscard]] Result<std::vector<uint32_t>> parameters_of(const Json& codec) const {
    const std::string text = print_json(with_defaults(codec));
    size_t count = 0;
    unsigned* values = nullptr;
    int status = 0;
    {
      const Turn turn_held(turn.get());
      status = api.NCZ_codec_to_hdf5(text.c_str(), &count, &values);
    }
    const std::unique_ptr<unsigned, Free> owned(values);
    if (status != 0) return fail(EINVAL, "{} does not understand {} (netCDF's error {})", path, text, status);
    if (count > 0 && values == nullptr) return fail(EINVAL, "{} declares {} parameters, but returns none", path, count);
    return std::vector<uint32_t>(values, values + count);
  }

  [[nodiscard]] Json codec_of(std::span<const uint32_t> parameters) const {
    const std::vector<unsigned> values(parameters.begin(), parameters.end());
    static constexpr unsigned kNone = 0;
    char* text = nullptr;
    int status = 0;
    {
      const Turn turn_held(turn.get());
      status = api.NCZ_hdf5_to_codec(values.size(), values.empty() ? &kNone : values.data(), &text);
    }
    const std::unique_ptr<char, Free> owned(text);
    if (status != 0 || text == nullptr) return nullptr;
    Result<Json> codec = parse_json(text);
    return codec && codec->is_object() && codec->value("id", Json()).is_string() ? *std::move(codec) : Json();
  }

  [[nodiscard]] Result<std::vector<uint32_t>> working_parameters(const StageContext& context) const {
    const std::vector<uint32_t>& given = context.stage.parameters;
    // The parameters of an HDF5 file are complete: libhdf5 called set_local when the dataset was created.
    if (!context.stage.codec->is_object()) return given;
    size_t visible_count = given.size();
    auto* visible = static_cast<unsigned*>(std::calloc(std::max<size_t>(given.size(), 1), sizeof(unsigned)));
    if (visible == nullptr) return fail(ENOMEM, "no memory for parameters");
    std::ranges::copy(given, visible);
    size_t count = 0;
    unsigned* values = nullptr;
    int status = 0;
    {
      const Turn turn_held(turn.get());
      const NetcdfVariableInCall variable(context.chunk);
      status = api.NCZ_modify_parameters(NetcdfVariableInCall::kGroup, NetcdfVariableInCall::kVariable, &visible_count,
                                         &visible, &count, &values);
    }
    const std::unique_ptr<unsigned, Free> owned_visible(visible);
    const std::unique_ptr<unsigned, Free> owned(values);
    if (status != 0) return fail(EINVAL, "{} cannot work on this variable (netCDF's error {})", path, status);
    if (count > 0 && values == nullptr) return fail(EINVAL, "{} declares {} parameters, but returns none", path, count);
    return std::vector<uint32_t>(values, values + count);
  }
};

}  // namespace

void add_hdf5_half(Filter& filter, const PluginLibrary& plugin) {
  const auto foreign = std::make_shared<const ForeignFilter>(ForeignFilter{*plugin.hdf5, plugin.path, plugin.turn});
  filter.hdf5_library = plugin.path;
  filter.decodes = plugin.hdf5->decoder_present != 0;
  filter.encodes = plugin.hdf5->encoder_present != 0;
  filter.make_coder = [foreign](const StageContext& context) { return make_foreign_coder(foreign, context); };
}

void add_codec_half(Filter& filter, const PluginLibrary& plugin, const NCZ_codec_t& codec) {
  const auto foreign = std::make_shared<const ForeignCodec>(ForeignCodec{codec, plugin.path, plugin.turn});
  filter.codec = codec.codecid;
  filter.codec_library = plugin.path;
  filter.parameters_of = [foreign](const Json& json, uint64_t) { return foreign->parameters_of(json); };
  filter.codec_of = [foreign](std::span<const uint32_t> parameters) { return foreign->codec_of(parameters); };
  if (codec.NCZ_modify_parameters != nullptr && !filter.working_parameters)
    filter.working_parameters = [foreign](const StageContext& context) { return foreign->working_parameters(context); };
}

std::string shown_name(const char* name) {
  std::string shown;
  // The text after a semicolon is a reference.
  for (const char* at = name; at != nullptr && *at != '\0' && *at != ';' && shown.size() < 64; ++at)
    shown += *at >= ' ' && *at < 127 ? *at : '?';
  while (shown.ends_with(' ')) shown.pop_back();
  return shown;
}

PluginsHeld::PluginsHeld() : lock_(foreign_calls()) { are_held = true; }
PluginsHeld::~PluginsHeld() { are_held = false; }

}  // namespace codecfs::filters
