// Attributes and dimensions of what is in a dataset.

#include "commands/dataset_details.h"

#include <gtest/gtest.h>

#include "model/json.h"
#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

TEST(DatasetDetails, AreThoseOfEachNode) {
  MemorySource source;
  source.add_group("/g");
  Variable variable = text_variable({4}, {2});
  variable.attributes = {{"units", "K", ">S1"}, {"top", "Infinity"}, {"_codecfs_float_attributes", "[\"top\"]"}};
  variable.dimensions = {"t"};
  source.add_variable("/g/v", variable);
  source.add_link("/l", "g");
  DatasetInfo info = *read_info(source, "x");
  ASSERT_TRUE(read_details(source, info, SIZE_MAX));
  ASSERT_EQ(info.nodes.size(), 4U);
  const auto node = [&](const std::string& path) -> const InfoNode& {
    return *std::ranges::find(info.nodes, path, &InfoNode::path);
  };
  ASSERT_TRUE(node("").details && node("g").details && node("g/v").details);
  EXPECT_FALSE(node("l").details);
  const NodeDetails& details = *node("g/v").details;
  EXPECT_EQ(print_json(attributes_json(details.attributes)),
            R"({"units": {"type": "char", "value": "K"}, "top": {"value": Infinity}})");
  EXPECT_EQ(dimension_names(*details.described), (std::vector<std::string>{"t"}));
}

TEST(DatasetDetails, OfTheFirstNodesAlone) {
  MemorySource source;
  for (const char* const name : {"/a", "/b", "/c"}) source.add_variable(name, text_variable({4}, {2}));
  DatasetInfo info = *read_info(source, "x");
  ASSERT_TRUE(read_details(source, info, 2));
  EXPECT_TRUE(info.nodes[0].details && info.nodes[1].details);
  EXPECT_FALSE(info.nodes[2].details || info.nodes[3].details);
}

TEST(DatasetDetails, TypesOfAttributes) {
  EXPECT_EQ(attribute_type({"a", 1, "<i2"}), "int16");
  EXPECT_EQ(attribute_type({"a", "x", "|S4"}), "string");
  EXPECT_EQ(attribute_type({"a", "x", ">S1"}), "char");
  EXPECT_EQ(attribute_type({"a", "x"}), "");
  EXPECT_EQ(attribute_text({"a", "x y"}), "x y");
  EXPECT_EQ(attribute_text({"a", Json{1, 2}}), "[1, 2]");
}

TEST(DatasetDetails, GeneratedNamesAreNone) {
  Variable variable = text_variable({4, 5}, {2, 5});
  variable.dimensions = {"x", "phony_dim_1"};
  variable.attributes = {phony_attribute({std::nullopt, "phony_dim_1"})};
  EXPECT_EQ(dimension_names(variable), (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(dimensions_text(variable), "x, phony_dim_1 (generated)");
}

}  // namespace
}  // namespace codecfs::commands
