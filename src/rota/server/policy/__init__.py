"""The policy decides in a process of its own, so its time, memory and crashes do not harm the controller.

`PolicyHost` (`host`) is the policy that the loop drives.  It owns a `RemotePolicy` (`remote`), which speaks
to a child (`process`) in the forms of `messages`, and perhaps a second one that only watches: the `shadow`.

The child holds a replica of the loop's table.  It receives frames (`moments.replica`) that are pickled here
and returns plain values only: nothing that a policy does to its process is executed here.
`memory` limits what a process may take, `fallback` says when another policy takes over.
"""
