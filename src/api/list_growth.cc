#include "api/list_growth.h"

namespace herald {

std::size_t CountObjects(std::string_view rest_of_list) {
  constexpr std::string_view kStart = "{\"metadata\":";
  std::size_t others = 0;
  // Searches for braces, because an event has few of them.
  for (std::size_t at = rest_of_list.find('{', 1); at != std::string_view::npos;
       at = rest_of_list.find('{', at + 1)) {
    if (rest_of_list[at - 1] == ',' && rest_of_list.substr(at, kStart.size()) == kStart) ++others;
  }
  return others > 0 ? others + 1 : 0;
}

}  // namespace herald
