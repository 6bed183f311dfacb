#pragma once
// The plugins of this process: searched for once, when a filter is wanted that is not registered.
//
// Of each filter the first library in the order of directories (then of file names) brings the HDF5 half, and the first
// the codec half; halves of one HDF5 id belong together whichever libraries they come from. What is registered already
// (the built-in filters) keeps its place; plugins fill in the half that it lacks.

#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace codecfs::filters {

/// Where load_plugins() will look, absolute paths. To be called before the first filter is looked up; until then there
/// is no directory.
void set_plugin_directories(std::vector<std::string> directories);
std::vector<std::string> searched_directories();
/// Lets load_plugins() load none, whatever the directories (-o plugins=off). To be called as early.
void refuse_plugins();
bool plugins_are_refused();

/// Searches and registers, at the first call; the others wait for it. Called by the lookups of filter.h.
void load_plugins();
bool plugins_are_loaded();
/// Lets the codecs in use end (NCZ_codec_finalize). After that no filter of a plugin may be used.
void finalize_plugins();

/// Held while a library outside our control may call plugins by itself (libhdf5, in H5Dread): no plugin runs through us
/// meanwhile, unless it is re-entrant or this thread calls it. One at a time in a thread.
class PluginsHeld {
 public:
  PluginsHeld();
  ~PluginsHeld();
  PluginsHeld(const PluginsHeld&) = delete;
  PluginsHeld& operator=(const PluginsHeld&) = delete;

 private:
  std::unique_lock<std::shared_mutex> lock_;
};

/// What the search met.
struct PluginSearch {
  struct Note {
    std::string path;
    std::string text;
  };
  std::vector<Note> directories;  // "2 plugins", "No such file or directory"
  std::vector<Note> set_aside;    // libraries, or one half of them, that are not used, and why
  std::vector<Note> untrusted;    // directories and libraries that are not touched: others can write to them
};
PluginSearch plugin_search();

}  // namespace codecfs::filters
