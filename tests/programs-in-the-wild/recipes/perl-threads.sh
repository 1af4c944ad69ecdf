# package: perl
# needs: perl
# version: perl -v
# does: 8 interpreter threads over a queue
run() { $RUN perl -e 'use threads; use Thread::Queue; my $q = Thread::Queue->new(1 .. 4000); $q->end;
my @t = map { threads->create(sub { my $s = 0; while (defined(my $n = $q->dequeue)) { $s += $n * $_ % 7 for 1 .. 60 } $s }) } 1 .. 8;
my $s = 0; $s += $_->join for @t; print "$s\n";'; }
