//! [`Weight`] as a module of Burn, which walks over modules, records and devices see.

use super::{Form, Weight, form_of};
use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param, Reparameterization,
};
use burn::tensor::{Device, Tensor};

// Like Burn's implementation for a parameter, except that visitors and mappers see the parameter with its form: Burn detaches everything
// before it shows a parameter.
impl<const D: usize> Module for Weight<D> {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        let Some(form) = form_of(&self.0) else {
            return Module::visit(&self.0, visitor);
        };
        visitor.visit_float(&self.0);
        visitor.enter_module(Form::NAME, ATTACHED);
        form.visit(visitor);
        visitor.exit_module(Form::NAME, ATTACHED);
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let Some(before) = form_of(&self.0).cloned() else {
            return Self(Module::map(self.0, mapper));
        };
        let param = mapper.map_float(self.0);
        // A mapper of this crate may have attached another form; most mappers drop the form.
        let form = form_of(&param).cloned();
        if form.as_ref().is_some_and(Form::is_plain) {
            return Self(param);
        }
        mapper.enter_module(Form::NAME, ATTACHED);
        let form = Module::map(form.unwrap_or(before), mapper);
        mapper.exit_module(Form::NAME, ATTACHED);
        Self::of(param, form)
    }

    fn materialize(self) -> Self {
        let Some(form) = form_of(&self.0) else {
            return Self(self.0.materialize());
        };
        let (stored, changed) = (form.stored_on().is_some(), !form.changes.is_empty());
        let parts = form.parts;
        match self.values() {
            Ok(values) if stored => {
                let param = Param::from_tensor(values).set_require_grad(false);
                Self::from(param).with_parts(parts)
            }
            Ok(values) if changed => {
                // A new leaf that trains if the weight did.
                let leaf =
                    |base: Tensor<D>| values.detach().set_require_grad(base.is_require_grad());
                Self::of(self.0.map(leaf), Form::float(parts))
            }
            Ok(_) => Self::of(self.0, Form::float(parts)),
            // A record has damaged what is stored; products refuse it.
            Err(_) => self,
        }
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.collect_devices(devices)
    }

    fn to_device(self, device: &Device) -> Self {
        Self(self.0.to_device(device))
    }

    fn fork(self, device: &Device) -> Self {
        Self(self.0.fork(device))
    }

    fn train(self) -> Self {
        Self(self.0.train())
    }

    fn valid(&self) -> Self {
        Self(self.0.valid())
    }
}

/// Burn's container name of attached parameters.
pub(in crate::fp8) const ATTACHED: &str = "Reparameterization";

impl<const D: usize> ModuleDisplayDefault for Weight<D> {
    fn content(&self, content: Content) -> Option<Content> {
        let (shape, precision) = (self.dims(), self.precision());
        let text = format!("Weight {{shape: {shape:?}, precision: {precision:?}}}");
        content.add_formatted(&text).optional()
    }
}

impl<const D: usize> ModuleDisplay for Weight<D> {}
