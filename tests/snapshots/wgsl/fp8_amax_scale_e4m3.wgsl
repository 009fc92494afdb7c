var<workgroup> shared_v36: array<u32, 256>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_i32: array<i32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 4, 1)
fn fp8_amax_scale_e4m3(@builtin(local_invocation_id) v273: vec3<u32>, @builtin(workgroup_id) v279: vec3<u32>, @builtin(num_workgroups) v281: vec3<u32>) {
let v287 = &v5;
let v288 = &v1;
let v251 = info_var.static_meta[1];
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_i32[0];
let v280 = v279[2];
let v257 = u32(v280);
let v282 = v281[1];
let v259 = u32(v282);
let v260 = v257 * v259;
let v283 = v281[0];
let v262 = u32(v283);
let v263 = v260 * v262;
let v284 = v279[1];
let v265 = u32(v284);
let v268 = v265 * v262;
let v269 = v263 + v268;
let v286 = v279[0];
let v271 = u32(v286);
let v272 = v269 + v271;
let v12 = u32(4);
let v13 = v272 * v12;
let v274 = v273[1];
let v15 = u32(v274);
let v16 = v13 + v15;
let v17 = u32(0);
var<function> v252_store: u32;
let v252 = &v252_store;
*v252 = v17;
let v21 = v16 < v251;
if v21 {
let v275 = v273[0];
let v23 = u32(v275);
let v24 = u32(64);
for(var v25: u32 = v23; v25 < v9; v25 += v24) {
let v27 = v16 * v9;
let v28 = v27 + v25;
let v32 = &(*v288)[v28];
let v33 = *v32;
let v34 = *v252;
let v35 = max(v34, v33);
*v252 = v35;

}

}
let v254 = &shared_v36;
let v276 = v273[0];
let v41 = u32(v276);
let v44 = u32(64);
let v45 = v15 * v44;
let v46 = v45 + v41;
let v50 = &(*v254)[v46];
let v51 = *v252;
*v50 = v51;
workgroupBarrier();
let v52 = u32(32);
let v53 = v41 < v52;
if v53 {
let v56 = v46 + v52;
let v60 = &(*v254)[v56];
let v61 = *v60;
let v67 = *v50;
let v68 = max(v67, v61);
*v50 = v68;

}
workgroupBarrier();
let v74 = u32(16);
let v75 = v41 < v74;
if v75 {
let v78 = v46 + v74;
let v82 = &(*v254)[v78];
let v83 = *v82;
let v89 = *v50;
let v90 = max(v89, v83);
*v50 = v90;

}
workgroupBarrier();
let v96 = u32(8);
let v97 = v41 < v96;
if v97 {
let v100 = v46 + v96;
let v104 = &(*v254)[v100];
let v105 = *v104;
let v111 = *v50;
let v112 = max(v111, v105);
*v50 = v112;

}
workgroupBarrier();
let v119 = v41 < v12;
if v119 {
let v122 = v46 + v12;
let v126 = &(*v254)[v122];
let v127 = *v126;
let v133 = *v50;
let v134 = max(v133, v127);
*v50 = v134;

}
workgroupBarrier();
let v140 = u32(2);
let v141 = v41 < v140;
if v141 {
let v144 = v46 + v140;
let v148 = &(*v254)[v144];
let v149 = *v148;
let v155 = *v50;
let v156 = max(v155, v149);
*v50 = v156;

}
workgroupBarrier();
let v162 = u32(1);
let v163 = v41 < v162;
if v163 {
let v166 = v46 + v162;
let v170 = &(*v254)[v166];
let v171 = *v170;
let v177 = *v50;
let v178 = max(v177, v171);
*v50 = v178;

}
workgroupBarrier();
let v187 = &(*v254)[v45];
let v188 = *v187;
let v191 = v276 == v17;
var<function> v255_store: bool;
let v255 = &v255_store;
if v191 {
*v255 = v21;

} else {
let v195 = false;
*v255 = v195;

}
let v196 = *v255;
if v196 {
let v197 = f32(v188);
let v198 = bitcast<u32>(v197);
let v199 = u32(8388608);
let v200 = v188 >= v199;
let v201 = select(v198, v188, v200);
let v202 = u32(23);
let v203 = v201 >> u32(v202);
let v204 = i32(v203);
let v205 = i32(0);
let v206 = i32(149);
let v207 = select(v206, v205, v200);
let v208 = v204 - v207;
let v209 = u32(8388607);
let v210 = v201 & v209;
let v211 = u32(1065353216);
let v212 = v210 | v211;
let v213 = bitcast<f32>(v212);
let v214 = f32(1.75);
let v215 = v213 / v214;
let v216 = bitcast<u32>(v215);
let v218 = v216 >> u32(v202);
let v219 = i32(v218);
let v220 = v219 + v208;
let v221 = i32(135);
let v222 = v220 - v221;
let v223 = v222 + v10;
let v224 = i32(1);
let v225 = i32(254);
let v226 = clamp(v223, v224, v225);
let v227 = u32(v226);
let v229 = v227 << u32(v202);
let v231 = v216 & v209;
let v232 = v229 | v231;
let v234 = v223 < v224;
let v236 = select(v232, v199, v234);
let v238 = v223 > v225;
let v239 = u32(2139095039);
let v240 = select(v236, v239, v238);
let v242 = v188 == v17;
let v244 = select(v240, v211, v242);
let v248 = &(*v287)[v16];
*v248 = v244;

}
return;

}
