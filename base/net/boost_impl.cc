// SPDX-License-Identifier: Apache-2.0
// The single unit that compiles the bodies of Asio, Beast, JSON and URL. On two cores this is the
// largest saving of build time the project has.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <boost/json/src.hpp>
#include <boost/url/src.hpp>
