use super::*;

fn lost(watch: &Arc<Watch>, number: u64) -> Lost {
    let watch = watch.clone();
    Lost { number, watch }
}

#[test]
fn who_stopped_waiting_is_forgotten() {
    let watch = Arc::new(Watch::default());
    let mut context = Context::from_waker(Waker::noop());
    let (mut one, mut two) = (lost(&watch, 1), lost(&watch, 2));
    for _ in 0..3 {
        assert!(Pin::new(&mut one).poll(&mut context).is_pending());
        assert!(Pin::new(&mut two).poll(&mut context).is_pending());
    }
    assert_eq!(watch.state().waiting.len(), 2);
    drop(one);
    assert_eq!(watch.state().waiting.len(), 1);
    let loss = DeviceLoss {
        destroyed: true,
        message: "gone".to_owned(),
    };
    watch.state().loss = Some(loss.clone());
    assert_eq!(Pin::new(&mut two).poll(&mut context), Poll::Ready(loss));
}
