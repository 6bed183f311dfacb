#include "filters/plugins/plugins.h"

#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/log.h"
#include "filters/core/filter.h"
#include "filters/plugins/foreign_filter.h"
#include "filters/plugins/plugin_class.h"
#include "filters/plugins/plugin_library.h"
#include "filters/plugins/plugin_path.h"
#include "filters/plugins/plugin_probe.h"
#include "filters/plugins/plugin_trust.h"

namespace codecfs::filters {
namespace {

using Finalizer = void (*)();

class Search {
 public:
  PluginSearch found;
  std::vector<Finalizer> finalizers;
  std::map<uint32_t, H5Z_class2_t> classes;  // HDF5 filter classes in use

  void run(std::span<const std::string> directories) {
    for (const std::string& directory : directories) collect(directory);
    const std::vector<std::string> fates = probe_plugins(paths_);
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (fates[i].empty())
        load(paths_[i], shown_[i]);
      else
        set_aside(shown_[i], fates[i]);
    }
    for (const PluginLibrary& plugin : libraries_) take(plugin);
    for (const PluginLibrary& plugin : libraries_)
      for (const NCZ_codec_t& codec : plugin.defaults) halves_[codec.hdf5id].codec.try_emplace(plugin, codec);
    for (const auto& [id, halves] : halves_) register_pair(id, halves);
  }

 private:
  struct CodecHalf {
    const PluginLibrary* plugin = nullptr;
    const NCZ_codec_t* codec = nullptr;
    void try_emplace(const PluginLibrary& from, const NCZ_codec_t& given) {
      if (plugin == nullptr) *this = {&from, &given};
    }
  };
  struct Halves {
    const PluginLibrary* hdf5 = nullptr;
    CodecHalf codec = {};
  };

  void set_aside(const std::string& path, std::string reason) {
    log::warning("plugin {}: {}", path, reason);
    found.set_aside.push_back({path, std::move(reason)});
  }
  /// For reasons that are not errors of the library.
  void not_needed(const std::string& path, std::string reason) { found.set_aside.push_back({path, std::move(reason)}); }

  void distrust(const std::string& path, const std::string& reason) {
    log::warning("plugins of {} are not loaded: {}", path, reason);
    found.untrusted.push_back({path, reason});
  }

  void collect(const std::string& directory) {
    const Result<std::vector<std::string>> files = plugin_files(directory);
    if (!files) {
      found.directories.push_back({directory, files.error().reason.substr(directory.size() + 2)});
      return;
    }
    if (const Result<std::string> trusted = trusted_path(directory); !trusted) {
      distrust(directory, trusted.error().reason);
      found.directories.push_back({directory, "not trusted: " + trusted.error().reason});
      return;
    }
    size_t plugins = 0;
    for (const std::string& file : *files) {
      Result<std::string> real = trusted_path(file);  // before the file is read
      if (!real) {
        distrust(file, real.error().reason);
        found.set_aside.push_back({file, real.error().reason});
        continue;
      }
      if (!names_a_plugin_interface(*real)) continue;
      paths_.push_back(*std::move(real));
      shown_.push_back(file);
      ++plugins;
    }
    found.directories.push_back({directory, fmt::format("{} plugin{}", plugins, plugins == 1 ? "" : "s")});
  }

  void load(const std::string& path, const std::string& shown) {
    Result<PluginLibrary> plugin = open_plugin(path, shown);
    if (!plugin) return set_aside(shown, plugin.error().reason);
    for (const std::string& problem : plugin->problems) set_aside(shown, problem);
    libraries_.push_back(*std::move(plugin));
  }

  void take(const PluginLibrary& plugin) {
    if (plugin.hdf5) {
      Halves& halves = halves_[static_cast<uint32_t>(plugin.hdf5->id)];
      if (halves.hdf5 == nullptr)
        halves.hdf5 = &plugin;
      else
        not_needed(plugin.path, fmt::format("filter {}: {} comes first", plugin.hdf5->id, halves.hdf5->path));
    }
    for (const NCZ_codec_t& codec : plugin.codecs) {
      CodecHalf& half = halves_[codec.hdf5id].codec;
      if (half.plugin == nullptr)
        half = {&plugin, &codec};
      else
        not_needed(plugin.path, fmt::format("codec '{}': {} comes first", codec.codecid, half.plugin->path));
    }
  }

  void register_pair(uint32_t id, const Halves& halves) {
    const FilterPtr known = find_registered(id);
    Filter filter = known != nullptr ? *known : Filter{.id = id};
    bool changed = false;
    if (halves.hdf5 != nullptr) {
      if (filter.make_coder) {
        not_needed(halves.hdf5->path,
                   fmt::format("filter {} is built in (-o builtin=off:{} uses the plugin instead)", id, id));
      } else if (filter.in_libhdf5) {
        not_needed(halves.hdf5->path, fmt::format("filter {} is libhdf5's own", id));
      } else {
        add_hdf5_half(filter, *halves.hdf5);
        classes.emplace(id, *halves.hdf5->hdf5);
        changed = true;
      }
    }
    bool has_codec = false;
    if (const auto& [plugin, codec] = halves.codec; plugin != nullptr) {
      if (!filter.codec.empty()) {
        not_needed(plugin->path, fmt::format("codec '{}' of filter {} is built in", codec->codecid, id));
      } else if (const FilterPtr other = find_registered(codec->codecid)) {
        not_needed(plugin->path,
                   fmt::format("codec '{}' is that of filter {} ({}) already", codec->codecid, other->id, other->name));
      } else {
        add_codec_half(filter, *plugin, *codec);
        has_codec = changed = true;
      }
    }
    if (!changed) return;
    if (filter.name.empty()) filter.name = name_for(id, halves);
    if (known != nullptr) (void)unregister_filter(id);
    if (Result<> registered = register_filter(std::move(filter)); !registered) {
      log::warning("plugins of filter {}: {}", id, registered.error().reason);
      return;
    }
    if (!has_codec) return;
    const NCZ_codec_t& codec = *halves.codec.codec;
    if (codec.NCZ_codec_initialize != nullptr) codec.NCZ_codec_initialize();
    if (codec.NCZ_codec_finalize != nullptr) finalizers.push_back(codec.NCZ_codec_finalize);
  }

  /// The plugin's own name, unless another filter has it.
  static std::string name_for(uint32_t id, const Halves& halves) {
    const char* told = halves.hdf5 != nullptr ? halves.hdf5->hdf5->name : halves.codec.codec->codecid;
    std::string name = shown_name(told);
    return name.empty() || is_registered_name(name) ? fmt::format("filter-{}", id) : name;
  }

  std::vector<std::string> paths_;  // without links, as they are loaded
  std::vector<std::string> shown_;  // as they were found
  std::vector<PluginLibrary> libraries_;
  std::map<uint32_t, Halves> halves_;  // refer to libraries_, which is complete by then
};

struct State {
  Mutex mutex;  // held while plugins are loaded
  std::vector<std::string> directories CODECFS_GUARDED_BY(mutex);
  bool refused CODECFS_GUARDED_BY(mutex) = false;
  PluginSearch found CODECFS_GUARDED_BY(mutex);
  std::vector<Finalizer> finalizers CODECFS_GUARDED_BY(mutex);
  std::map<uint32_t, H5Z_class2_t> classes CODECFS_GUARDED_BY(mutex);
  std::atomic<bool> loaded = false;
};

State& state() {
  static auto& instance = *new State;  // never destroyed, like the registry
  return instance;
}

}  // namespace

void set_plugin_directories(std::vector<std::string> directories) {
  const LockGuard lock(state().mutex);
  state().directories = std::move(directories);
}

std::vector<std::string> searched_directories() {
  const LockGuard lock(state().mutex);
  return state().directories;
}

void refuse_plugins() {
  const LockGuard lock(state().mutex);
  state().refused = true;
}

bool plugins_are_refused() {
  const LockGuard lock(state().mutex);
  return state().refused;
}

bool plugins_are_loaded() { return state().loaded.load(std::memory_order_acquire); }

void load_plugins() {
  const LockGuard lock(state().mutex);
  if (plugins_are_loaded()) return;
  Search search;
  if (!state().refused) search.run(state().directories);
  state().found = std::move(search.found);
  state().classes = std::move(search.classes);
  state().finalizers = std::move(search.finalizers);
  state().loaded.store(true, std::memory_order_release);
}

void finalize_plugins() {
  const LockGuard lock(state().mutex);
  for (const Finalizer finalize : std::exchange(state().finalizers, {})) finalize();
}

std::optional<H5Z_class2_t> plugin_class(uint32_t id) {
  const LockGuard lock(state().mutex);
  const auto found = state().classes.find(id);
  return found == state().classes.end() ? std::nullopt : std::optional(found->second);
}

PluginSearch plugin_search() {
  const LockGuard lock(state().mutex);
  return state().found;
}

}  // namespace codecfs::filters
