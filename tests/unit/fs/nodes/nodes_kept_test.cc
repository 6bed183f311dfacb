// How long the nodes of a folder's own names last: as long as something uses them, and no longer.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fs/nodes/nodes.h"
#include "support/memory_source.h"

namespace codecfs::fs {
namespace {

/// Counts how often each id is kept.
class KeepingSource final : public MemorySource {
 public:
  bool keep(ObjectId id) override {
    if (refuses || id == outdated) return false;
    ++kept[id];
    return true;
  }
  void release(ObjectId id) noexcept override {
    if (--kept[id] == 0) kept.erase(id);
  }

  bool refuses = false;
  ObjectId outdated = 0;
  std::map<ObjectId, int> kept;
};

class NodesKept : public ::testing::Test {
 protected:
  static Entry entry(std::string name, EntryKind kind, ObjectId object) { return {std::move(name), kind, object, {}}; }
  static Entry file(int number) { return entry("f" + std::to_string(number), EntryKind::file, 100 + number); }
  const Node& root() { return *nodes_.at(kRootIno)->node; }
  /// What a LOOKUP does; its inode number.
  Ino look_up(const Node& directory, const Entry& entry) {
    const Nodes::Request request(nodes_);
    const Ino ino = (*nodes_.child(directory, entry))->ino();
    nodes_.looked_up(ino);
    return ino;
  }
  Ino look_up(Ino directory, const Entry& entry) {
    const Nodes::Request request(nodes_);
    return look_up(*nodes_.at(directory)->node, entry);
  }
  int error_of(Ino ino) {
    const Nodes::Request request(nodes_);
    const Result<Place> place = nodes_.at(ino);
    return place ? 0 : place.error().code;
  }
  [[nodiscard]] size_t added() const { return nodes_.count() - before_; }

  KeepingSource source_;
  Nodes nodes_{entry("", EntryKind::folder, 1), View::decoded, &source_};
  const size_t before_ = nodes_.count();
};

TEST_F(NodesKept, NamesThatTheKernelForgetsAreGivenBack) {
  std::vector<Ino> inos;
  for (int i = 0; i < 1000; ++i) inos.push_back(look_up(root(), file(i)));
  EXPECT_EQ(added(), 1000);
  EXPECT_EQ(source_.kept.size(), 1000);
  for (const Ino ino : inos) nodes_.forgotten(ino, 1);
  EXPECT_EQ(added(), 0);
  EXPECT_TRUE(source_.kept.empty());
  for (const Ino ino : inos) EXPECT_EQ(error_of(ino), ESTALE);
  EXPECT_EQ(nodes_.find("/f7"), nullptr);
  // The same names have the same numbers again, in any order.
  for (int i = 999; i >= 0; --i) EXPECT_EQ(look_up(root(), file(i)), inos[i]);
  EXPECT_EQ(added(), 1000);
}

TEST_F(NodesKept, LookUpsAreCounted) {
  const Ino ino = look_up(root(), file(1));
  EXPECT_EQ(look_up(root(), file(1)), ino);
  nodes_.forgotten(ino, 1);
  EXPECT_EQ(error_of(ino), 0);
  // A FORGET of what the kernel got before, which is handled after a later look-up.
  look_up(root(), file(1));
  nodes_.forgotten(ino, 1);
  EXPECT_EQ(error_of(ino), 0);
  EXPECT_EQ(added(), 1);
  nodes_.forgotten(ino, 1);
  EXPECT_EQ(error_of(ino), ESTALE);
  nodes_.forgotten(ino, 1);
  nodes_.forgotten(ino, 7);
  EXPECT_EQ(added(), 0);
}

TEST_F(NodesKept, ARequestKeepsWhatItWasGiven) {
  const Ino ino = look_up(root(), file(1));
  {
    const Nodes::Request request(nodes_);
    const Node* const node = nodes_.at(ino)->node;
    nodes_.forgotten(ino, 1);
    EXPECT_EQ(nodes_.at(ino)->node, node);
    EXPECT_EQ(node->path, "/f1");
    {
      const Nodes::Request inner(nodes_);
      EXPECT_EQ(nodes_.find("/f1"), node);
    }
    EXPECT_EQ(*nodes_.child(root(), file(1)), node);
    EXPECT_EQ(added(), 1);
  }
  EXPECT_EQ(added(), 0);
  // It is found, and told to the kernel, while the kernel forgets what it knew.
  EXPECT_EQ(look_up(root(), file(1)), ino);
  {
    const Nodes::Request request(nodes_);
    const Node* const node = *nodes_.child(root(), file(1));
    nodes_.forgotten(ino, 1);
    nodes_.looked_up(node->ino());
  }
  EXPECT_EQ(error_of(ino), 0);
  nodes_.forgotten(ino, 1);
  EXPECT_EQ(added(), 0);
}

TEST_F(NodesKept, WhatNoRequestWasGivenIsFreedAtOnce) {
  {
    const Nodes::Request request(nodes_);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(nodes_.child(root(), file(i)));
    EXPECT_EQ(added(), 100);
  }
  EXPECT_EQ(added(), 0);
}

TEST_F(NodesKept, AThreadWithoutARequestMayUseANodeForever) {
  const Ino ino = look_up(root(), file(1));
  const Node* const node = nodes_.at(ino)->node;
  nodes_.forgotten(ino, 1);
  EXPECT_EQ(node->path, "/f1");
  EXPECT_EQ(nodes_.at(ino)->node, node);
}

TEST_F(NodesKept, AnOpenDirectoryKeepsItsNode) {
  const Ino folder = look_up(root(), entry("d", EntryKind::folder, 7));
  {
    std::optional<Nodes::Hold> hold;
    const Node* node = nullptr;
    {
      const Nodes::Request request(nodes_);
      node = nodes_.at(folder)->node;
      hold.emplace(nodes_, *node);
    }
    nodes_.forgotten(folder, 1);  // before the RELEASEDIR
    EXPECT_EQ(node->path, "/d");
    const Ino inner = look_up(*node, file(1));
    nodes_.forgotten(inner, 1);
    EXPECT_EQ(added(), 1);
  }
  EXPECT_EQ(added(), 0);
}

TEST_F(NodesKept, FoldersStayAsLongAsWhatIsInThem) {
  const Ino a = look_up(root(), entry("a", EntryKind::folder, 7));
  const Ino b = look_up(a, entry("b", EntryKind::folder, 8));
  const Ino link = look_up(b, {"l", EntryKind::symlink, 0, "../x"});
  nodes_.forgotten(a, 1);
  nodes_.forgotten(b, 1);
  EXPECT_EQ(added(), 3);
  {
    const Nodes::Request request(nodes_);
    const auto above = nodes_.above(*nodes_.at(link)->node);
    ASSERT_EQ(above.size(), 3);
    EXPECT_EQ(above[0]->path, "/a/b");
    EXPECT_EQ(above[1]->path, "/a");
  }
  nodes_.forgotten(link, 1);
  EXPECT_EQ(added(), 0);
  EXPECT_TRUE(source_.kept.empty());
  // The root of a dataset, its members, and the folders above stay.
  EXPECT_EQ(look_up(root(), entry("a", EntryKind::folder, 7)), a);
  const Ino dataset = look_up(a, entry("d.h5", EntryKind::group, 9));
  const Ino inner = look_up(dataset, entry("v", EntryKind::variable, 10));
  nodes_.forgotten(inner, 1);
  nodes_.forgotten(dataset, 1);
  nodes_.forgotten(a, 1);
  EXPECT_EQ(added(), 3);
  EXPECT_EQ(nodes_.at(inner)->node->path, "/a/d.h5/v");
  EXPECT_EQ(nodes_.dataset_of(*nodes_.at(inner)->node), nodes_.at(dataset)->node->key());
  EXPECT_EQ(nodes_.above(*nodes_.at(inner)->node).size(), 3);
}

TEST_F(NodesKept, EachViewHasANodeAndAllShareTheKey) {
  const Node& encoded = nodes_.view_entry(View::encoded);
  const Ino own = look_up(encoded, entry("d", EntryKind::folder, 7));
  EXPECT_EQ(added(), 2);
  const Ino inner = look_up(own, file(1));
  EXPECT_EQ(added(), 4);
  const Ino decoded = look_up(root(), entry("d", EntryKind::folder, 7));
  EXPECT_NE(own, decoded);
  EXPECT_EQ(added(), 4);
  {
    const Nodes::Request request(nodes_);
    EXPECT_EQ(nodes_.at(own)->node->key(), decoded);
    EXPECT_EQ(nodes_.at(decoded)->node->key(), decoded);
    EXPECT_EQ(nodes_.in_all_views(*nodes_.at(own)->node).size(), 2);
    EXPECT_EQ(nodes_.at(inner)->node->parent, own);
  }
  nodes_.forgotten(decoded, 1);
  nodes_.forgotten(own, 1);
  EXPECT_EQ(added(), 4);
  nodes_.forgotten(inner, 1);
  EXPECT_EQ(added(), 0);
  EXPECT_TRUE(source_.kept.empty());
}

TEST_F(NodesKept, WhatReplacesANameHasAnotherNumberWhileTheKernelKnowsTheFormer) {
  const Ino before = look_up(root(), entry("x", EntryKind::folder, 7));
  const Ino inner = look_up(before, file(1));
  const Ino now = look_up(root(), entry("x", EntryKind::folder, 8));
  EXPECT_NE(before, now);
  EXPECT_EQ(error_of(before), ESTALE);
  EXPECT_EQ(error_of(inner), ESTALE);
  nodes_.forgotten(before, 1);
  nodes_.forgotten(inner, 1);
  EXPECT_EQ(added(), 1);
  {
    const Nodes::Request request(nodes_);
    EXPECT_EQ(nodes_.find("/x")->ino(), now);
    EXPECT_EQ(nodes_.find("/x")->object, 8);
  }
  nodes_.forgotten(now, 1);
  EXPECT_EQ(added(), 0);
  const Ino as_file = look_up(root(), entry("x", EntryKind::file, 9));
  nodes_.remove_all();
  EXPECT_EQ(error_of(as_file), ESTALE);
  nodes_.forgotten(as_file, 1);
  EXPECT_EQ(added(), 0);
  EXPECT_TRUE(source_.kept.empty());
}

TEST_F(NodesKept, AnIdThatIsNotValidAnyMoreIsLookedUpAgain) {
  source_.refuses = true;
  {
    const Nodes::Request request(nodes_);
    EXPECT_EQ(nodes_.child(root(), file(1)).error().code, ESTALE);
  }
  EXPECT_EQ(added(), 0);
  source_.refuses = false;
  nodes_.forgotten(look_up(root(), file(1)), 1);
  EXPECT_EQ(added(), 0);
}

TEST_F(NodesKept, AnIdThatIsNotValidAnyMoreSaysNothingAboutItsName) {
  const Ino ino = look_up(root(), file(1));
  const Ino folder = look_up(root(), entry("d", EntryKind::folder, 7));
  const Ino inner = look_up(folder, file(2));
  source_.outdated = 999;
  for (const Entry& old : {entry("f1", EntryKind::file, 999), entry("d", EntryKind::folder, 999)}) {
    const Nodes::Request request(nodes_);
    EXPECT_EQ(nodes_.child(root(), old).error().code, ESTALE);
  }
  for (const Ino known : {ino, folder, inner}) EXPECT_EQ(error_of(known), 0);
  EXPECT_EQ(look_up(root(), file(1)), ino);
  nodes_.forgotten(ino, 2);
  nodes_.forgotten(inner, 1);
  nodes_.forgotten(folder, 1);
  EXPECT_EQ(added(), 0);
  EXPECT_TRUE(source_.kept.empty());
}

// Under the address and thread sanitizers, this also shows that no node is used after it was freed.
TEST_F(NodesKept, ManyThreadsLookUpUseAndForget) {
  constexpr int kThreads = 4;
  constexpr int kNames = 12;
  constexpr int kSteps = 4000;
  std::atomic<int> wrong = 0;
  std::barrier start(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < kThreads; ++number)
      threads.emplace_back([&, number] {
        std::mt19937 random(number);
        std::vector<Ino> known;
        start.arrive_and_wait();
        for (int step = 0; step < kSteps; ++step) {
          const int name = static_cast<int>(random() % kNames);
          const View view = random() % 2 == 0 ? View::decoded : View::encoded;
          {
            const Nodes::Request request(nodes_);
            const Node& top = view == View::decoded ? *nodes_.at(kRootIno)->node : nodes_.view_entry(view);
            const auto folder = nodes_.child(top, entry("d", EntryKind::folder, 7));
            if (!folder) {
              ++wrong;
              continue;
            }
            const auto child = nodes_.child(**folder, file(name));
            if (!child || (*child)->path != "/d/f" + std::to_string(name) || (*child)->view != view) {
              ++wrong;
              continue;
            }
            const Nodes::Hold hold(nodes_, **folder);
            nodes_.looked_up((*child)->ino());
            known.push_back((*child)->ino());
            if (nodes_.above(**child).size() < 2) ++wrong;
          }
          {
            const Nodes::Request request(nodes_);
            const auto place = nodes_.at(known[random() % known.size()]);
            if (!place || !place->node->path.starts_with("/d/f")) ++wrong;
          }
          while (known.size() > random() % 4) {
            nodes_.forgotten(known.back(), 1);
            known.pop_back();
          }
        }
        for (const Ino ino : known) nodes_.forgotten(ino, 1);
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(added(), 0);
  EXPECT_TRUE(source_.kept.empty());
}

}  // namespace
}  // namespace codecfs::fs
