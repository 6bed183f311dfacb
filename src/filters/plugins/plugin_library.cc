#include "filters/plugins/plugin_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace codecfs::filters {
namespace {

constexpr std::array<std::string_view, 3> kInterfaces{"H5PLget_plugin_info", "NCZ_get_codec_info",
                                                      "NCZ_codec_info_defaults"};
constexpr size_t kMaxDefaults = 1024;  // codecs in a list, which a null pointer terminates

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

/// The loader's message without the path at its start.
std::string loader_message(const std::string& path) {
  const char* message = dlerror();
  std::string text = message == nullptr ? "cannot be loaded" : message;
  if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
  return text;
}

Result<H5Z_class2_t> ask_filter(void* library) {
  const auto type = symbol<H5PL_type_t (*)()>(library, "H5PLget_plugin_type");
  const auto info = symbol<const void* (*)()>(library, "H5PLget_plugin_info");
  if (type == nullptr) return fail(EINVAL, "H5PLget_plugin_info without H5PLget_plugin_type");
  if (const int kind = type(); kind != H5PL_TYPE_FILTER)
    return fail(EINVAL, "an HDF5 plugin of another kind ({}), no filter", kind);
  const auto* given = static_cast<const H5Z_class2_t*>(info());
  if (given == nullptr) return fail(EINVAL, "H5PLget_plugin_info returns nothing");
  // Before HDF5 1.8 the structure had no version and started with the id.
  if (given->version != H5Z_CLASS_T_VERS)
    return fail(EINVAL, "version {} of the HDF5 filter interface; {} is known", given->version, H5Z_CLASS_T_VERS);
  if (given->id < 1 || given->id > H5Z_FILTER_MAX)
    return fail(EINVAL, "filter id {} is not between 1 and {}", given->id, H5Z_FILTER_MAX);
  if (given->filter == nullptr) return fail(EINVAL, "filter {} has no function", given->id);
  return *given;
}

Result<NCZ_codec_t> check_codec(const NCZ_codec_t* given) {
  if (given == nullptr) return fail(EINVAL, "NCZ_get_codec_info returns nothing");
  if (given->version != NCZ_CODEC_CLASS_VER || given->sort != NCZ_CODEC_HDF5)
    return fail(EINVAL, "version {}, sort {} of the codec interface; {}, {} is known", given->version, given->sort,
                int{NCZ_CODEC_CLASS_VER}, int{NCZ_CODEC_HDF5});
  if (given->codecid == nullptr || given->codecid[0] == '\0') return fail(EINVAL, "a codec without an id");
  if (given->hdf5id < 1 || given->hdf5id > H5Z_FILTER_MAX)
    return fail(EINVAL, "codec '{}': filter id {} is not between 1 and {}", given->codecid, given->hdf5id,
                H5Z_FILTER_MAX);
  if (given->NCZ_codec_to_hdf5 == nullptr || given->NCZ_hdf5_to_codec == nullptr)
    return fail(EINVAL, "codec '{}' lacks a conversion between JSON and parameters", given->codecid);
  return *given;
}

}  // namespace

bool names_a_plugin_interface(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 64) return false;
  const auto size = static_cast<size_t>(status.st_size);
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) return false;
  bool found = std::memcmp(mapped, "\177ELF", 4) == 0;
  if (found) {
    found = false;
    for (const std::string_view name : kInterfaces)
      found = found || memmem(mapped, size, name.data(), name.size()) != nullptr;
  }
  munmap(mapped, size);
  return found;
}

Result<PluginLibrary> open_plugin(const std::string& path, const std::string& shown) {
  PluginLibrary plugin;
  plugin.path = shown;
  dlerror();
  // RTLD_LOCAL, so that functions of the same name in two plugins do not conflict. RTLD_NOW, so that one that needs a
  // function which is not there is known by that function's name, and not by a process that ends at the call.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(ENOEXEC, "{}", loader_message(path));
  if (dlsym(library, "codecfs_plugin_is_reentrant") == nullptr) plugin.turn = std::make_shared<Mutex>();

  if (dlsym(library, "H5PLget_plugin_info") != nullptr) {
    if (Result<H5Z_class2_t> filter = ask_filter(library))
      plugin.hdf5 = *filter;
    else
      plugin.problems.push_back(filter.error().reason);
  }
  if (const auto info = symbol<const void* (*)()>(library, "NCZ_get_codec_info")) {
    const Result<NCZ_codec_t> codec = check_codec(static_cast<const NCZ_codec_t*>(info()));
    if (!codec) {
      plugin.problems.push_back(codec.error().reason);
    } else if (plugin.hdf5 && codec->hdf5id != static_cast<unsigned>(plugin.hdf5->id)) {
      plugin.problems.push_back(fmt::format("its HDF5 filter is {}, its codec '{}' is for {}: neither is used",
                                            plugin.hdf5->id, codec->codecid, codec->hdf5id));
      plugin.hdf5.reset();
    } else {
      plugin.codecs.push_back(*codec);
    }
  }
  plugin.defaults_from = plugin.codecs.size();
  if (const auto defaults = symbol<const void* (*)()>(library, "NCZ_codec_info_defaults")) {
    const auto* list = static_cast<const NCZ_codec_t* const*>(defaults());
    for (size_t i = 0; list != nullptr && i < kMaxDefaults && list[i] != nullptr; ++i) {
      if (Result<NCZ_codec_t> codec = check_codec(list[i]))
        plugin.codecs.push_back(*codec);
      else
        plugin.problems.push_back(codec.error().reason);
    }
  }
  return plugin;
}

PluginDescription describe(const PluginLibrary& library) {
  PluginDescription description{.path = library.path, .hdf5 = {}, .codecs = {}, .problems = library.problems};
  if (const auto& filter = library.hdf5)
    description.hdf5 = {.id = static_cast<uint32_t>(filter->id),
                        .name = shown_name(filter->name == nullptr ? "" : filter->name),
                        .encodes = filter->encoder_present != 0,
                        .decodes = filter->decoder_present != 0,
                        .has_can_apply = filter->can_apply != nullptr,
                        .has_set_local = filter->set_local != nullptr};
  for (size_t i = 0; i < library.codecs.size(); ++i) {
    const NCZ_codec_t& codec = library.codecs[i];
    description.codecs.push_back({.id = codec.codecid,
                                  .hdf5_id = codec.hdf5id,
                                  .has_modify_parameters = codec.NCZ_modify_parameters != nullptr,
                                  .is_default = i >= library.defaults_from});
  }
  return description;
}

std::string shown_name(std::string_view name) {
  std::string shown;
  // The text after a semicolon is a reference.
  for (const char c : name.substr(0, name.find(';'))) {
    if (shown.size() == 64) break;
    shown += c >= ' ' && c < 127 ? c : '?';
  }
  while (shown.ends_with(' ')) shown.pop_back();
  return shown;
}

}  // namespace codecfs::filters
