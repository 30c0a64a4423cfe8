"""The policy decides in a process of its own: its time, its memory and its crashes are not the controller's.

`PolicyHost` (`host`) is the policy that the loop drives.  It owns a `RemotePolicy` (`remote`), which speaks
to a child (`process`) in the forms of `messages`, and perhaps a second one that watches: the `shadow`.

The child holds a replica of the loop's table.  Towards it go frames (`moments.replica`), pickled by us;
back come plain values only: whatever a policy does to its process, nothing of it is executed here.
`memory` limits what a process may take, `failing` says when another policy takes over.
"""
