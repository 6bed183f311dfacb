// Inode numbers: reversible, distinct, the root is 1, and every chunk of a grid of any size has a number.

#include "fs/nodes/nodes.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

Entry entry(std::string name, EntryKind kind, ObjectId object = 0) { return {std::move(name), kind, object, {}}; }

TEST(Nodes, RootIsInodeOne) {
  const Nodes nodes(entry("", EntryKind::group, 5), View::decoded);
  const auto place = nodes.at(kRootIno);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->node->kind, NodeKind::group);
  EXPECT_EQ(place->node->object, 5);
  EXPECT_EQ(place->file, FileKind::itself);
  EXPECT_EQ(nodes.control().kind, NodeKind::control);
}

TEST(Nodes, TheSameNameIsTheSameNode) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node* a = *nodes.child(root, entry("a", EntryKind::group, 1));
  EXPECT_EQ(a, *nodes.child(root, entry("a", EntryKind::group, 1)));
  const Node* inner = *nodes.child(*a, entry("a", EntryKind::variable, 2));
  EXPECT_NE(a, inner);
  EXPECT_EQ(inner->path, "/a/a");
  EXPECT_EQ(inner->parent, a->ino());
  EXPECT_EQ(nodes.at(inner->ino(FileKind::zarray))->file, FileKind::zarray);
}

TEST(Nodes, ChunkNumbersComeBack) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node* small = *nodes.child(root, entry("small", EntryKind::variable));
  const Node* large = *nodes.child(root, entry("large", EntryKind::variable));
  constexpr uint64_t kHuge = uint64_t{1} << 45;
  for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{999'999}}) {
    const auto place = nodes.at(*nodes.chunk_ino(*small, number, 1'000'000));
    EXPECT_EQ(place->node, small);
    EXPECT_EQ(place->file, FileKind::chunk);
    EXPECT_EQ(place->chunk, number);
  }
  for (const uint64_t number : {uint64_t{0}, uint64_t{1} << 40, kHuge - 1}) {
    const auto place = nodes.at(*nodes.chunk_ino(*large, number, kHuge));
    EXPECT_EQ(place->node, large);
    EXPECT_EQ(place->file, FileKind::chunk);
    EXPECT_EQ(place->chunk, number);
  }
  const Node* later = *nodes.child(root, entry("later", EntryKind::group));
  EXPECT_EQ(nodes.at(later->ino())->node, later);
}

TEST(Nodes, RefusesWhatWasNeverGivenOut) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  EXPECT_EQ(nodes.at(Ino{77} << kLocalBits | 1).error().code, ESTALE);
  EXPECT_EQ(nodes.at(0).error().code, ESTALE);
}

TEST(Nodes, RunsOutWithAnError) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  constexpr uint64_t kLargest = uint64_t{1} << 60;
  int given = 0;
  for (; given < 64; ++given) {
    const Node* node = *nodes.child(root, entry("v" + std::to_string(given), EntryKind::variable));
    const auto ino = nodes.chunk_ino(*node, kLargest - 1, kLargest);
    if (ino) continue;
    EXPECT_EQ(ino.error().code, ENFILE);
    break;
  }
  EXPECT_GT(given, 3);
  EXPECT_LT(given, 64);
}

TEST(Nodes, AGroupThatBecomesAVariableKeepsItsNumber) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node* group = *nodes.child(root, entry("v", EntryKind::group, 1));
  nodes.become_variable(*group, 2);
  const Node* variable = nodes.at(group->ino())->node;
  EXPECT_EQ(variable->ino(), group->ino());
  EXPECT_EQ(variable->kind, NodeKind::variable);
  EXPECT_EQ(*nodes.child(root, entry("v", EntryKind::variable, 2)), variable);
}

TEST(Nodes, GroupsBelowANewVariableBecomeDirectoriesOfChunks) {
  Nodes nodes(entry("", EntryKind::group), View::encoded3);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node* group = *nodes.child(root, entry("v", EntryKind::group, 1));
  const Node* top = *nodes.child(*group, entry("c", EntryKind::group, 2));
  const Node* row = *nodes.child(*top, entry("1", EntryKind::group, 3));
  const Node* other = *nodes.child(*top, entry("9", EntryKind::group, 4));
  nodes.become_variable(*group, 5, std::vector<Nodes::FormerGroup>{{top, 0}, {row, 2}});
  const Node* variable = nodes.at(group->ino())->node;
  EXPECT_EQ(variable->kind, NodeKind::variable);
  for (const auto& [ino, number] : {std::pair(top->ino(), 0), std::pair(row->ino(), 2)}) {
    const Result<Place> place = nodes.at(ino);
    ASSERT_TRUE(place);
    EXPECT_EQ(place->node, variable);
    EXPECT_EQ(place->file, FileKind::chunk_directory);
    EXPECT_EQ(place->chunk, number);
  }
  EXPECT_EQ(nodes.at(other->ino()).error().code, ESTALE);
  EXPECT_EQ(nodes.find("/v/c"), nullptr);
  nodes.remove(*variable);
  EXPECT_EQ(nodes.at(top->ino()).error().code, ESTALE);
}

TEST(Nodes, WhatIsRemovedIsStaleAndItsNameIsFree) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node* group = *nodes.child(root, entry("g", EntryKind::group, 1));
  const Node* inner = *nodes.child(*group, entry("v", EntryKind::variable, 2));
  const Node* other = *nodes.child(root, entry("gg", EntryKind::group, 3));
  std::vector<const Node*> alike;  // around "g/" in the order of bytes
  for (const char* name : {"g-", "g.", "g0", "f"})
    alike.push_back(*nodes.child(root, entry(name, EntryKind::group, 9)));
  const Ino chunk = *nodes.chunk_ino(*inner, 7, 10);
  nodes.remove(*group);
  for (const Node* each : alike) EXPECT_EQ(nodes.at(each->ino())->node, each) << each->path;
  EXPECT_EQ(nodes.at(group->ino()).error().code, ESTALE);
  EXPECT_EQ(nodes.at(inner->ino()).error().code, ESTALE);
  EXPECT_EQ(nodes.at(chunk).error().code, ESTALE);
  EXPECT_EQ(nodes.at(other->ino())->node, other);
  EXPECT_NE((*nodes.child(root, entry("g", EntryKind::group, 1)))->ino(), group->ino());
}

TEST(Nodes, TheDirectoriesAboveANodeAreThoseOfItsView) {
  Nodes nodes(entry("", EntryKind::folder), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node& encoded = nodes.view_entry(View::encoded);
  const Node* dataset = *nodes.child(encoded, entry("a.h5", EntryKind::group, 1));
  const Node* inner = *nodes.child(*dataset, entry("g", EntryKind::group, 2));
  EXPECT_EQ(nodes.above(*inner), (std::vector<const Node*>{dataset, &encoded}));
  EXPECT_EQ(nodes.above(root), std::vector<const Node*>());
  EXPECT_EQ(nodes.dataset_of(*inner), dataset->key());
  EXPECT_EQ(nodes.dataset_of(*dataset), dataset->key());
  EXPECT_EQ(nodes.dataset_of(*nodes.find("/a.h5/g")), dataset->key()) << "the same in all views";
  const Node* plain = *nodes.child(root, entry("b", EntryKind::folder, 3));
  EXPECT_EQ(nodes.dataset_of(*plain), plain->key());
}

TEST(Nodes, WhatIsMovedKeepsItsNumbers) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node* group = *nodes.child(root, entry("g", EntryKind::group, 1));
  const Node* target = *nodes.child(root, entry("t", EntryKind::group, 3));
  const Node* inner = *nodes.child(*group, entry("v", EntryKind::variable, 2));
  const Ino chunk = *nodes.chunk_ino(*inner, 7, 10);
  nodes.move(*group, *target, "h");
  EXPECT_EQ(nodes.at(group->ino())->node->path, "/t/h");
  EXPECT_EQ(nodes.at(group->ino())->node->parent, target->ino());
  EXPECT_EQ(nodes.at(inner->ino())->node->path, "/t/h/v");
  EXPECT_EQ(nodes.at(chunk)->node->path, "/t/h/v");
  EXPECT_EQ((*nodes.child(*nodes.at(group->ino())->node, entry("v", EntryKind::variable, 2)))->ino(), inner->ino());
}

TEST(Nodes, ANodeFromBeforeAMoveStandsForTheMovedObject) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node& root = *nodes.at(kRootIno)->node;
  const Node* group = *nodes.child(root, entry("g", EntryKind::group, 1));
  const Node* v = *nodes.child(*group, entry("v", EntryKind::variable, 2));
  const Node* other_group = *nodes.child(nodes.view_entry(View::raw), entry("g", EntryKind::group, 1));
  const Node* other_v = *nodes.child(*other_group, entry("v", EntryKind::variable, 2));
  const Ino chunk = *nodes.chunk_ino(*v, 3, 10);
  nodes.move(*group, root, "h");
  ASSERT_EQ(v->path, "/g/v");
  const auto in_views = nodes.in_all_views(*v);
  ASSERT_EQ(in_views.size(), 2);
  EXPECT_EQ(in_views[0]->path, "/h/v");
  EXPECT_EQ(in_views[0]->ino(), v->ino());
  EXPECT_EQ(in_views[1]->ino(), other_v->ino());
  EXPECT_EQ((*nodes.child(*group, entry("v", EntryKind::variable, 2)))->ino(), v->ino());
  EXPECT_EQ((*nodes.child(*group, entry("w", EntryKind::variable, 3)))->path, "/h/w");
  ASSERT_TRUE(nodes.renumber_chunks(*v, 20));
  EXPECT_NE(*nodes.chunk_ino(*v, 3, 20), chunk);
  nodes.remove(*v);
  EXPECT_EQ(nodes.at(other_v->ino()).error().code, ESTALE);
  EXPECT_TRUE(nodes.in_all_views(*v).empty());
  nodes.remove(*group);
  EXPECT_EQ(nodes.child(*group, entry("v", EntryKind::variable, 2)).error().code, ESTALE);
}

TEST(Nodes, AnObjectHasANodeInEachViewAndOneKey) {
  for (const View shown : {View::decoded, View::encoded}) {
    Nodes nodes(entry("", EntryKind::group), shown);
    const Node& root = *nodes.at(kRootIno)->node;
    const Node& other_root = nodes.view_entry(shown == View::decoded ? View::encoded : View::decoded);
    EXPECT_EQ(nodes.view_entry(shown).target, "../..");
    EXPECT_EQ(root.key(), other_root.key());
    const Node* group = *nodes.child(root, entry("g", EntryKind::group, 1));
    const Node* v = *nodes.child(*group, entry("v", EntryKind::variable, 2));
    const Node* other_group = *nodes.child(other_root, entry("g", EntryKind::group, 1));
    const Node* other_v = *nodes.child(*other_group, entry("v", EntryKind::variable, 2));
    EXPECT_NE(v->ino(), other_v->ino());
    EXPECT_EQ(v->key(), other_v->key());
    EXPECT_EQ(*nodes.chunk_key(*v, 3, 10), *nodes.chunk_key(*other_v, 3, 10));
    EXPECT_EQ(nodes.in_all_views(*v).size(), 2);
    const Ino chunk = *nodes.chunk_ino(*other_v, 3, 10);
    nodes.move(*v, root, "w");
    EXPECT_EQ(nodes.at(chunk)->node->path, "/w");
    EXPECT_EQ(nodes.at(chunk)->node->parent, other_root.ino());
    nodes.remove(*nodes.at(other_v->ino())->node);
    EXPECT_EQ(nodes.at(v->ino()).error().code, ESTALE);
    EXPECT_EQ(nodes.at(chunk).error().code, ESTALE);
  }
}

TEST(Nodes, TheFilesOfADirectoryAreThoseOfItsView) {
  Nodes group_root(entry("", EntryKind::group), View::npy);
  EXPECT_TRUE(files_of(*group_root.at(kRootIno)->node).empty());
  EXPECT_FALSE(files_of(group_root.view_entry(View::encoded)).empty());
  EXPECT_FALSE(files_of(group_root.control()).empty());
  Nodes array_root(entry("", EntryKind::variable), View::decoded);
  const auto files = files_of(array_root.view_entry(View::npy));
  ASSERT_EQ(files.size(), 1);
  EXPECT_EQ(files[0].name, "array.npy");
  EXPECT_EQ(array_root.at(array_root.view_entry(View::npy).ino(files[0].kind))->file, FileKind::array);
  EXPECT_EQ(files_of(array_root.view_entry(View::raw))[0].name, "array");
  for (const View view : {View::decoded, View::encoded, View::decoded3, View::encoded3, View::npy, View::raw})
    EXPECT_EQ(view_named(name_of(view)), view);
}

TEST(Nodes, DirectoriesOfChunksHaveNumbersAndNoNodes) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node* v = *nodes.child(nodes.view_entry(View::decoded3), entry("v", EntryKind::variable, 1));
  constexpr uint64_t kHuge = uint64_t{1} << 45;  // more than one slot of chunks, and of directories
  const Ino chunk = *nodes.chunk_ino(*v, kHuge - 1, kHuge);
  for (const uint64_t number : {uint64_t{0}, uint64_t{1} << 40, kHuge - 1}) {
    const auto place = nodes.at(*nodes.directory_ino(*v, number, kHuge));
    EXPECT_EQ(place->node, v);
    EXPECT_EQ(place->file, FileKind::chunk_directory);
    EXPECT_EQ(place->chunk, number);
  }
  const Ino directory = *nodes.directory_ino(*v, 7, kHuge);
  EXPECT_EQ(*nodes.directory_ino(*v, 7, kHuge), directory);
  EXPECT_EQ(nodes.at(chunk)->file, FileKind::chunk);
  nodes.move(*v, nodes.view_entry(View::decoded3), "w");
  EXPECT_EQ(nodes.at(directory)->node->path, "/w");
  ASSERT_TRUE(nodes.renumber_chunks(*v, 20));
  EXPECT_EQ(nodes.at(directory).error().code, ESTALE);
  const Ino second = *nodes.directory_ino(*v, 7, 10);
  EXPECT_EQ(nodes.at(second)->chunk, 7);
  EXPECT_EQ(nodes.directory_ino(*v, 7 + (uint64_t{1} << 41), UINT64_MAX).error().code, ENFILE);
  // It has grown beyond its slots.
  EXPECT_EQ(nodes.at(*nodes.directory_ino(*v, uint64_t{1} << 41, uint64_t{1} << 42))->chunk, uint64_t{1} << 41);
  EXPECT_EQ(nodes.at(second).error().code, ESTALE);
  nodes.remove(*v);
  EXPECT_EQ(nodes.directory_ino(*v, 1, 10).error().code, ESTALE);
}

TEST(Nodes, ChunksThatAreNumberedAnewHaveOtherInodes) {
  Nodes nodes(entry("", EntryKind::group), View::decoded);
  const Node* v = *nodes.child(*nodes.at(kRootIno)->node, entry("v", EntryKind::variable, 1));
  const Ino first = *nodes.chunk_ino(*v, 3, 10);
  ASSERT_TRUE(nodes.renumber_chunks(*v, 20));
  const Ino second = *nodes.chunk_ino(*v, 3, 20);
  EXPECT_EQ(nodes.at(first).error().code, ESTALE);
  EXPECT_EQ(nodes.at(second)->chunk, 3);
  EXPECT_EQ(nodes.at(second)->node, v);
  ASSERT_TRUE(nodes.renumber_chunks(*v, 20));
  EXPECT_EQ(nodes.at(second).error().code, ESTALE);
  EXPECT_EQ(nodes.at(v->ino(FileKind::zarray))->file, FileKind::zarray);
}

}  // namespace
}  // namespace codecfs::fs
