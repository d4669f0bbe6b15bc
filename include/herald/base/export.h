// HERALD_EXPORT marks what other libraries may link against.
//
// Everything is compiled with hidden visibility, so a class or function that
// has code in a .cc file and is used outside its own library needs the mark.
// Static builds drop it: a host that links Herald into a shared library of its
// own must not export our symbols as if they were its own.
#pragma once

#if defined(HERALD_STATIC)
#define HERALD_EXPORT
#else
#define HERALD_EXPORT [[gnu::visibility("default")]]
#endif
