// The paths of objects with several links; object_tree.h describes the rules.

#include <deque>
#include <ranges>
#include <utility>

#include "backends/hdf5/metadata/object_tree.h"

namespace codecfs::hdf5 {

// The breadth-first walk. Skips unreadable groups, whose errors are reported when they are listed.
void ObjectTree::find_places() {
  places_.emplace();
  places_->emplace(nodes_[kRoot].address, Place{nodes_[kRoot].address, ""});
  std::deque<uint64_t> groups{nodes_[kRoot].address};
  for (; !groups.empty(); groups.pop_front()) {
    if (!recorder_->object(groups.front())) continue;
    const Handle group(open_object(file_, groups.front()));
    if (!group) continue;
    const auto links = links_of(group.get());
    if (!links) continue;
    for (const Link& link : *links) {
      if (link.info.type != H5L_TYPE_HARD || places_->contains(link.info.address)) continue;
      if (!recorder_->object(link.info.address)) continue;
      ObjectInfo info;
      if (const auto outline = outline_of(group.get(), link))
        info = outline->info;
      else if (!object_info_by_name(group.get(), link.name.c_str(), info))
        continue;
      if (info.type == H5O_TYPE_GROUP)
        groups.push_back(info.address);
      else if (info.references < 2)
        continue;
      places_->emplace(info.address, Place{groups.front(), link.name});
    }
  }
}

// The paths of all objects with several links may have changed, if there are such objects.
void ObjectTree::links_changed() {
  if (!places_) return;
  find_places();
  std::vector<ObjectId> unreachable;
  for (ObjectId id = 1; id < nodes_.size(); ++id) {
    if (nodes_[id].gone) continue;
    if (places_->contains(nodes_[id].address)) {
      update_path(nodes_[id].address);
    } else if (nodes_[id].group) {
      unreachable.push_back(id);
    }
  }
  for (const ObjectId id : unreachable) removed(id);
}

// Updates the path of an object in the table, and of the groups above it.
void ObjectTree::update_path(uint64_t address) {
  std::vector<uint64_t> chain;
  for (uint64_t at = address; at != nodes_[kRoot].address; at = places_->at(at).parent) chain.push_back(at);
  ObjectId parent = kRoot;
  for (const uint64_t at : std::views::reverse(chain)) {
    const auto known = numbers_.find(at);
    const ObjectId number = known != numbers_.end() ? known->second : add({at, parent, "", true});
    moved(number, parent, places_->at(at).name);
    parent = number;
  }
}

std::optional<std::string> ObjectTree::place_path(uint64_t address) const {
  std::string path;
  while (address != nodes_[kRoot].address) {
    const auto place = places_->find(address);
    if (place == places_->end()) return std::nullopt;
    path = fmt::format("/{}{}", place->second.name, path);
    address = place->second.parent;
  }
  return path.empty() ? "/" : path;
}

}  // namespace codecfs::hdf5
