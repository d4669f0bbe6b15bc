#pragma once

#include <string>
#include <unordered_map>

#include "herald/base/clock.h"
#include "store/store.h"

namespace herald::store {

// The state of a key at some revision: one of its versions, or that it does not exist. A value.
struct KeyState {
  Revision revision = 0;  // of the version; 0: the key does not exist
  Revision created = 0;   // revision of the write that created the key; 0 if it was not looked up
  Bytes value{};
  WallTime written{};
  WallTime expires{};  // by the lifetime rules at the time of the write
};

using KeyStates = std::unordered_map<std::string, KeyState>;  // by key

}  // namespace herald::store
